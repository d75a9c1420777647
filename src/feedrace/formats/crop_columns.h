// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/format.h"
#include "feedrace/formats/index_files.h"
#include "feedrace/formats/npy.h"

namespace feedrace::formats {

/// The crop index of one encoded picture, or why it has none.
struct MadeCropIndex {
  std::string bytes;
  std::string why_none;
};
MadeCropIndex crop_index_of(std::string_view encoded);

/// Adds counts to counts.
void add_gaps(const CropIndexGaps& more, CropIndexGaps& gaps);

/// Crop indexes of pictures in a row, as the two columns hold them.
struct CropIndexes {
  std::vector<std::uint64_t> begin{0};  ///< One more than there are pictures.
  std::string bytes;
  std::uint64_t count = 0;  ///< Of pictures that have one.
  CropIndexGaps gaps;

  void append(const MadeCropIndex& made) {
    append(made.bytes);
    if (!made.why_none.empty()) ++gaps[made.why_none];
  }
  void append(std::string_view index) {
    bytes += index;
    begin.push_back(bytes.size());
    if (!index.empty()) ++count;
  }
};

/// The stored columns, memory-mapped: nothing is read before a picture's index is asked for. Each
/// access checks its bounds. Immutable and thread-safe.
class CropColumns {
 public:
  static constexpr const char* kBeginFile = "crop_index_begin.npy";
  static constexpr const char* kBytesFile = "crop_index.npy";

  /// Failures: kNotFound, kIo; kCorruptData when they are not those of so many samples.
  static Result<CropColumns> map(const IndexFiles& files, std::uint64_t sample_count);

  /// Empty: the sample has none.
  std::span<const std::byte> of(std::uint64_t sample) const noexcept;

 private:
  NpyMap begin_, bytes_;
};

/// Writes the two columns, piece by piece.
class CropColumnsWriter {
 public:
  /// Failure: kIo.
  static Result<CropColumnsWriter> create(IndexFiles& files);
  Result<void> append(const CropIndexes& piece);
  /// For samples of which none has one.
  Result<void> append_empty(std::uint64_t sample_count);
  Result<void> finish();
  std::vector<int> fds() const { return {begin_.fd(), bytes_.fd()}; }

 private:
  CropColumnsWriter(NpyWriter begin, NpyWriter bytes)
      : begin_(std::move(begin)), bytes_(std::move(bytes)) {}

  NpyWriter begin_, bytes_;
  std::uint64_t byte_count_ = 0;
};

/// How far the making of crop indexes is: pictures done, and the share of all in [0, 1]. What it
/// throws ends the making, and nothing of the index is left.
using CropProgress = std::function<void(std::uint64_t picture_count, double share)>;

/// Counts for a `CropProgress` that need not be thread-safe.
class CropCounter {
 public:
  CropCounter(CropProgress progress, std::uint64_t total)
      : progress_(std::move(progress)), total_(total) {}

  /// `part` of the total. Thread-safe. Throws what the progress does.
  void add(std::uint64_t picture_count, std::uint64_t part);

 private:
  const CropProgress progress_;
  const std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t picture_count_ = 0;  // Guarded by mutex_.
  std::uint64_t done_ = 0;           // Guarded by mutex_.
};

}  // namespace feedrace::formats
