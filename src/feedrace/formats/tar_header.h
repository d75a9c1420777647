// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "feedrace/error.h"

namespace feedrace::formats {

inline constexpr std::size_t kTarBlockBytes = 512;

/// A number of a tar header: octal digits within blanks and NULs (all blank is 0), or GNU's
/// base-256 with the top bit set. Nothing when it is neither, is negative, or needs more than 63
/// bits.
std::optional<std::uint64_t> parse_tar_number(std::string_view field) noexcept;

/// One header block, as it stands; extensions are the reader's business. Views point into the
/// block.
struct TarHeader {
  std::string_view prefix;  ///< Of ustar only; empty otherwise.
  std::string_view name;
  char type = '0';
  std::string_view size_field;
};

/// True when all 512 bytes are 0.
bool is_zero_block(std::string_view block) noexcept;

/// True when the stored checksum is the sum of the block's bytes, taken unsigned (POSIX) or signed
/// (some tars before it).
bool tar_checksum_matches(std::string_view block) noexcept;

/// `block` holds `kTarBlockBytes` and its checksum matches.
TarHeader parse_tar_header(std::string_view block) noexcept;

/// What a pax extended header says that matters for finding samples.
struct PaxRecords {
  std::optional<std::string> path;
  std::optional<std::uint64_t> size;
  bool sparse = false;  ///< Any GNU.sparse record.

  /// Reads "LENGTH KEY=VALUE\n" records; later ones win. Failure: kCorruptData, without a place.
  Result<void> parse(std::string_view records);
};

/// "gzip" and the like when `head` begins with a compression's or an archive's magic bytes; empty
/// otherwise.
std::string_view compression_of(std::string_view head) noexcept;

}  // namespace feedrace::formats
