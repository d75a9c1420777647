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
    : read_into_(std::move(read_into)),
      raw_(raw),
      sample_bytes_(transform::raw_bytes(raw)),
      front_(decode::kMaxNpyHeaderBytes),
      stream_(std::make_unique<cuda::Stream>(read_into_->direct()->device())),
      done_(read_into_->direct()->device()) {
  try {
    pinned_ = std::make_shared<const cuda::PinnedRange>(read_into_->direct()->device(),
                                                        front_.data(), front_.size_bytes());
  } catch (const Error& error) {
    log.add(std::string("the memory for headers is not pinned, so that copies to it wait: ") +
            error.what());
  }
}

Result<void> RawToDevice::put(std::span<const std::byte> sample, cuda::BatchUpload::Slot& batch,
                              std::size_t index) {
  const bool is_on_device = read_into_->holds(sample);
  const auto front = is_on_device ? fetch_front(sample) : sample;
  const auto values = transform::find_raw_values(raw_, front, sample.size());
  if (!values) return values.error();
  const std::byte* const numbers = sample.data() + values->at_bytes;
  const std::uint64_t place = batch.address() + index * sample_bytes_;
  batch.wait_for_last(stream());
  if (is_on_device) {
    stream().copy_on_device(place, address_of(numbers), values->size_bytes);
  } else {
    stream().copy_to_device(place, numbers, values->size_bytes);
  }
  finish();
  return {};
}

void RawToDevice::blank(cuda::BatchUpload::Slot& batch, std::size_t index) {
  const std::vector<std::byte> zeros(sample_bytes_);
  batch.wait_for_last(stream());
  stream().copy_to_device(batch.address() + index * sample_bytes_, zeros.data(), zeros.size());
  finish();
}

/// Brings the begin of a sample to the host: what a header can take. Plain numbers have none.
std::span<const std::byte> RawToDevice::fetch_front(std::span<const std::byte> sample) {
  if (raw_.form == RawSamples::Form::kPlain) return {};
  const std::size_t bytes = std::min(sample.size(), decode::kMaxNpyHeaderBytes);
  if (bytes == 0) return {};
  stream().copy_to_host(front_.data(), address_of(sample.data()), bytes);
  finish();
  return front_.bytes().first(bytes);
}

void RawToDevice::finish() {
  try {
    done_.record(stream().handle());
    done_.wait();
  } catch (...) {
    stream_.reset();  // Waits for what was begun, which the caller is about to let go.
    throw;
  }
}

cuda::Stream& RawToDevice::stream() {
  if (!stream_) stream_ = std::make_unique<cuda::Stream>(read_into_->direct()->device());
  return *stream_;
}

}  // namespace feedrace::pipeline
