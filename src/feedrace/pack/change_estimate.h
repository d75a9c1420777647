// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "feedrace/error.h"
#include "feedrace/pack/picture_change.h"

namespace feedrace::pack {

/// One picture of a set, as its loader has it.
struct StoredPicture {
  std::string bytes;
  std::span<const std::byte> crop_index;  ///< Empty: none. Stays until the estimate is done.
};

/// What changing the pictures of a set costs and wins, from a sample of them.
struct ChangeEstimate {
  std::uint64_t picture_count = 0;  ///< Of the set.
  std::size_t looked_at = 0;
  std::size_t failed = 0;     ///< Of them, can't be read or changed; nothing below counts them.
  std::string first_failure;  ///< Of the first of them; empty when there was none.
  std::uint64_t first_failed_picture = 0;  ///< Its number, when there was one.
  double now_bytes = 0;                    ///< A picture's mean.
  double changed_bytes = 0;                ///< A changed picture's mean.
  /// Twice the standard error of `changed_bytes`: in 95 of 100 samples the set's mean lies so near.
  double changed_bytes_error = 0;
  double largest_changed_bytes = 0;  ///< Of those looked at.
  /// Training crops to 224 x 224 that one core makes in a second of its time: decoding, resizing
  /// and normalising, not reading; 0: not known.
  double now_per_second = 0;
  double changed_per_second = 0;

  std::uint64_t set_bytes() const noexcept;  ///< Of all changed pictures.
  double size_ratio() const noexcept;        ///< Changed to now; 0 where nothing is known.
  double speed_ratio() const noexcept;
  /// "64 of 131,072 pictures looked at: changed they take 209.4 kB each (+- 3.1 %), ...", one line.
  std::string to_text() const;
};

/// Reads picture `number` of [0, picture_count).
using ReadPicture = std::function<Result<StoredPicture>(std::uint64_t number)>;

/// Changes up to `sample_count` pictures, drawn by `seed`, fewer where they are large, and measures
/// both ways of loading some of them on this thread, by its CPU time: seconds at most. Holds one
/// picture at a time. Bytes depend on the pictures alone, not on the machine. Throws what `read`
/// throws.
ChangeEstimate estimate_change(const PictureChange& change, std::uint64_t picture_count,
                               const ReadPicture& read, std::size_t sample_count = 64,
                               std::uint64_t seed = 0);

}  // namespace feedrace::pack
