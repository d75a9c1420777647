// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/direct_copies.h"

#include <string>
#include <utility>

#include "feedrace/decode/npy_header.h"

namespace feedrace::pipeline {

DirectCopies::DirectCopies(std::shared_ptr<const cuda::DirectMemory> read_into,
                           storage::FallbackLog& log)
    : read_into_(std::move(read_into)),
      log_(log),
      stream_(std::make_unique<cuda::Stream>(device())),
      done_(device()) {
  make_room(decode::kMaxNpyHeaderBytes);
}

std::span<const std::byte> DirectCopies::fetch(std::span<const std::byte> on_device) {
  return fetch(reinterpret_cast<std::uint64_t>(on_device.data()), on_device.size());
}

std::span<const std::byte> DirectCopies::fetch(std::uint64_t address, std::size_t bytes) {
  if (bytes == 0) return {};
  if (bytes > fetched_.size_bytes()) make_room(bytes);
  stream().copy_to_host(fetched_.data(), address, bytes);
  finish();
  return fetched_.bytes().first(bytes);
}

void DirectCopies::make_room(std::size_t bytes) {
  pinned_.reset();
  fetched_ = HostMemory();
  fetched_ = HostMemory(bytes);
  try {
    pinned_ =
        std::make_shared<const cuda::PinnedRange>(device(), fetched_.data(), fetched_.size_bytes());
  } catch (const Error& error) {
    log_.add(std::string("the memory for headers is not pinned, so that copies to it wait: ") +
             error.what());
  }
}

void DirectCopies::finish() {
  try {
    done_.record(stream().handle());
    done_.wait();
  } catch (...) {
    stream_.reset();  // Waits for what was begun, which the caller is about to let go.
    throw;
  }
}

cuda::Stream& DirectCopies::stream() {
  if (!stream_) stream_ = std::make_unique<cuda::Stream>(device());
  return *stream_;
}

}  // namespace feedrace::pipeline
