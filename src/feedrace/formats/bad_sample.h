// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace feedrace::formats {

/// A line of a list of bad samples: one JSON object {"set" (of several), "shard" (null for a file
/// of its own), "key", "offset", "size", "sample", "epoch", "code", "reason"}; a text that is not
/// UTF-8 is "NAME_hex". The loader's quarantine and `feedrace verify --bad` write it, `feedrace
/// pack
/// --exclude` reads it.
struct BadSample {
  std::optional<std::string> set;  ///< Name of its set, where there are several.
  std::string shard;               ///< Path; empty for a file of its own.
  std::string key;                 ///< Any bytes but 0.
  std::uint64_t offset_bytes = 0;
  std::optional<std::uint64_t> size_bytes;
  std::optional<std::uint64_t> sample;  ///< Number in the set; none without a picture.
  std::optional<std::uint64_t> epoch;   ///< In which a loader met it.
  std::string code;                     ///< An error's, or `kFlagged`.
  std::string reason;

  /// Of a sample that was delivered all the same.
  static constexpr std::string_view kFlagged = "flagged";
  bool is_flagged() const noexcept { return code == kFlagged; }

  /// With a line end.
  std::string to_line() const;
  /// Nothing where `line` is no JSON object with a key. Other members may be absent; what is of
  /// another type counts as absent.
  static std::optional<BadSample> from_line(std::string_view line);
};

}  // namespace feedrace::formats
