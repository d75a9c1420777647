// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace feedrace::decode {

/// Memory that a decoder keeps between pictures. Not zeroed; grown only when too small.
class Scratch {
 public:
  /// More than this is given back as soon as a picture needs less: one poster must not cost every
  /// decode thread its memory for the rest of the run. 16 MiB hold 5.5 megapixels of RGB.
  static constexpr std::size_t kKeptBytes = std::size_t{16} << 20;

  /// Makes room for `bytes`; what was there is lost. False when the system has no memory.
  [[nodiscard]] bool reserve(std::size_t bytes) noexcept {
    if (bytes <= size_bytes_ && (size_bytes_ <= kKeptBytes || bytes > kKeptBytes)) return true;
    data_.reset();
    size_bytes_ = 0;
    data_.reset(new (std::nothrow) std::uint8_t[bytes]);
    if (data_ == nullptr) return false;
    size_bytes_ = bytes;
    return true;
  }

  std::uint8_t* data() const noexcept { return data_.get(); }
  std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  std::unique_ptr<std::uint8_t[]> data_;
  std::size_t size_bytes_ = 0;
};

}  // namespace feedrace::decode
