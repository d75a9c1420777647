// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "feedrace/error.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::formats {

/// Bytes of the header that we write: NumPy's format 1.0, data behind it aligned to 64 bytes.
inline constexpr std::size_t kNpyHeaderBytes = 128;

/// "<u8" and the like for the integer types that the index has.
template <typename T>
constexpr std::string_view npy_type() noexcept {
  constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);
  if constexpr (sizeof(T) == 1) return "|u1";
  if constexpr (sizeof(T) == 2) return "<u2";
  if constexpr (sizeof(T) == 4) return "<u4";
  return kIsSigned ? "<i8" : "<u8";
}

/// The 128 bytes in front of `count` values of `type`.
std::string npy_header(std::string_view type, std::uint64_t count);

/// "<i8" and the like: what kind of values a .npy file holds, be it ours or not. Failures: kIo,
/// kCorruptData.
Result<std::string> npy_type_of(int fd, const std::string& path);

/// Writes a one-dimensional .npy file value by value; how many there are is known at the end.
class NpyWriter {
 public:
  NpyWriter(Fd fd, std::string path, std::string_view type);

  /// Failure: kIo (disk full, quota).
  Result<void> append(std::string_view bytes);
  template <typename T>
  Result<void> append(std::span<const T> values) {
    count_ += values.size();
    return append(
        std::string_view(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
  }
  /// Writes what is left and the header. Nothing may be appended after it.
  Result<void> finish();

  int fd() const noexcept { return fd_.get(); }

 private:
  Result<void> flush();

  Fd fd_;
  std::string path_;
  std::string_view type_;
  std::uint64_t count_ = 0;
  std::uint64_t written_bytes_ = kNpyHeaderBytes;
  std::string buffer_;
};

/// A one-dimensional .npy file in memory, mapped read-only: opening it costs no memory of its own.
class NpyMap {
 public:
  NpyMap() = default;
  /// Failures: kIo; kCorruptData when the header is not that of `type`, or does not fit the file.
  static Result<NpyMap> map(int fd, const std::string& path, std::string_view type);
  NpyMap(NpyMap&& other) noexcept { swap(other); }
  NpyMap& operator=(NpyMap&& other) noexcept {
    swap(other);
    return *this;
  }
  ~NpyMap();

  std::uint64_t count() const noexcept { return count_; }
  /// The values; T is the type that the map was made with.
  template <typename T>
  std::span<const T> values() const noexcept {
    return {reinterpret_cast<const T*>(static_cast<const char*>(memory_) + data_at_),
            static_cast<std::size_t>(count_)};
  }

 private:
  void swap(NpyMap& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(data_at_, other.data_at_);
    std::swap(count_, other.count_);
  }

  void* memory_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::size_t data_at_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace feedrace::formats
