// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/raw_to_device.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "feedrace/decode/npy_header.h"
#include "feedrace/transform/raw_sample.h"

namespace feedrace::pipeline {
namespace {

std::uint64_t address_of(const std::byte* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

}  // namespace

RawToDevice::RawToDevice(std::shared_ptr<const cuda::DirectMemory> read_into, const RawSamples& raw,
                         storage::FallbackLog& log)
    : copies_(std::move(read_into), log), raw_(raw), sample_bytes_(transform::raw_bytes(raw)) {}

Result<void> RawToDevice::put(std::span<const std::byte> sample, cuda::BatchUpload::Slot& batch,
                              std::size_t index) {
  const bool is_on_device = copies_.holds(sample);
  const auto front = is_on_device ? fetch_front(sample) : sample;
  const auto values = transform::find_raw_values(raw_, front, sample.size());
  if (!values) return values.error();
  const std::byte* const numbers = sample.data() + values->at_bytes;
  const std::uint64_t place = batch.address() + index * sample_bytes_;
  batch.wait_for_last(copies_.stream());
  if (is_on_device) {
    copies_.stream().copy_on_device(place, address_of(numbers), values->size_bytes);
  } else {
    copies_.stream().copy_to_device(place, numbers, values->size_bytes);
  }
  copies_.finish();
  return {};
}

void RawToDevice::blank(cuda::BatchUpload::Slot& batch, std::size_t index) {
  const std::vector<std::byte> zeros(sample_bytes_);
  batch.wait_for_last(copies_.stream());
  copies_.stream().copy_to_device(batch.address() + index * sample_bytes_, zeros.data(),
                                  zeros.size());
  copies_.finish();
}

/// Brings the begin of a sample to the host: what a header can take. Plain numbers have none.
std::span<const std::byte> RawToDevice::fetch_front(std::span<const std::byte> sample) {
  if (raw_.form == RawSamples::Form::kPlain) return {};
  return copies_.fetch(sample.first(std::min(sample.size(), decode::kMaxNpyHeaderBytes)));
}

}  // namespace feedrace::pipeline
