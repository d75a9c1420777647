// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/single_reader.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "feedrace/core/alignment.h"

namespace feedrace::pipeline {

Result<SingleReader::Bytes> SingleReader::read(std::uint64_t sample) {
  if (!backend_) {
    backend_ = factory_();
    std::lock_guard lock(mutex_);
    interruptible_ = backend_.get();
  }
  const formats::Place place = dataset_.place(sample);
  auto file = backend_->open(dataset_.path(sample));
  if (!file) return file.error();
  const bool is_own_file = place.shard == formats::Place::kOwnFile;
  const std::uint64_t size = is_own_file ? (*file)->size_bytes() : place.size_bytes;
  if (size > max_sample_bytes_) {
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("the sample has {} bytes and at most {} fit in the memory limit",
                               size, max_sample_bytes_)};
  }
  // Whole blocks, so that the sample comes by the path that was chosen.
  const std::uint64_t alignment = (*file)->alignment_bytes();
  storage::ReadRequest request;
  request.file = file->get();
  request.offset_bytes = round_down(place.offset_bytes, alignment);
  const auto begin = static_cast<std::size_t>(place.offset_bytes - request.offset_bytes);
  const auto end = static_cast<std::size_t>(round_up(begin + size, alignment));
  Bytes bytes{HostMemory(std::max<std::size_t>(1, end)), begin, 0};
  request.destination = bytes.memory.bytes().first(end);
  backend_->submit({&request, 1});
  std::array<storage::Completion, 1> done;
  while (backend_->wait(done, 1) == 0) {
    std::lock_guard lock(mutex_);
    if (cancelled_) backend_->cancel_all();
  }
  counters_.record(done[0]);
  if (!done[0].bytes_read) return done[0].bytes_read.error();
  if (*done[0].bytes_read < begin + size) {
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("the file ends {} bytes into the sample of {} bytes",
                               *done[0].bytes_read - std::min(begin, *done[0].bytes_read), size)};
  }
  bytes.size = static_cast<std::size_t>(size);
  return bytes;
}

Result<std::span<const std::byte>> image_of(const SingleReader::Bytes& bytes,
                                            const formats::SampleSpans* spans,
                                            std::uint64_t sample) {
  if (spans == nullptr) return bytes.view();
  const auto pieces = spans->pieces(sample);
  if (!pieces) return pieces.error();
  return bytes.view().subspan(static_cast<std::size_t>(pieces->image.offset_bytes),
                              static_cast<std::size_t>(pieces->image.size_bytes));
}

void SingleReader::cancel() noexcept {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (interruptible_ != nullptr) interruptible_->interrupt();
}

}  // namespace feedrace::pipeline
