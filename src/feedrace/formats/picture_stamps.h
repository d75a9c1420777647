// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/formats/index_files.h"
#include "feedrace/formats/npy.h"

namespace feedrace::formats {

/// Size and modification time of a file, by which a later one of its name is told from it.
struct PictureStamp {
  /// Of a file that could not be read.
  static constexpr std::uint64_t kUnread = ~std::uint64_t{0};

  std::uint64_t size_bytes = kUnread;
  std::int64_t mtime_ns = 0;

  bool operator==(const PictureStamp&) const = default;
};

/// As the file is now; unread where nobody can tell.
PictureStamp stamp_of(const std::string& path);

/// The stamps of an image folder's files when their crop indexes were made, in two columns. Whoever
/// makes crop indexes compares them; opening a folder to load it does not.
class PictureStamps {
 public:
  static constexpr const char* kSizeFile = "file_size.npy";
  static constexpr const char* kTimeFile = "file_mtime_ns.npy";

  /// Failures: kNotFound, kIo; kCorruptData when they are not those of so many files.
  static Result<PictureStamps> map(const IndexFiles& files, std::uint64_t file_count);

  PictureStamp of(std::uint64_t file) const noexcept;

 private:
  NpyMap size_, time_;
};

/// Writes the two columns, piece by piece.
class PictureStampsWriter {
 public:
  /// Failure: kIo.
  static Result<PictureStampsWriter> create(IndexFiles& files);
  Result<void> append(const std::vector<PictureStamp>& piece);
  Result<void> finish();
  std::vector<int> fds() const { return {size_.fd(), time_.fd()}; }

 private:
  PictureStampsWriter(NpyWriter size, NpyWriter time)
      : size_(std::move(size)), time_(std::move(time)) {}

  NpyWriter size_, time_;
};

}  // namespace feedrace::formats
