// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace feedrace::ranks {

/// A larger file is rubbish. 16 KiB for each of 1,000 ranks.
inline constexpr std::size_t kMostRankFileBytes = std::size_t{16} << 20;

/// What one rank says to the others in `rank-N.json`.
struct RankFile {
  /// All ranks' texts, with the nonces of the files that they came in; both by rank.
  struct Answer {
    std::vector<std::string> nonces;
    std::vector<std::string> texts;
  };

  std::uint64_t rank = 0;
  std::uint64_t world_size = 0;
  std::string occasion;
  std::string nonce;  ///< Of this process and exchange.
  std::string echo;   ///< The nonce of rank 0 that it answers; empty on rank 0.
  std::string text;   ///< Empty on rank 0.
  /// Rank 0's, of this exchange or of the one before it: a slow rank may still want that.
  std::optional<Answer> answer;
};

/// 64 random bits as hex digits.
std::string make_nonce();

/// Writes the file whole or not at all, for anybody to read. Throws Error kIo.
void write_rank_file(const std::string& folder, const RankFile& file);

/// Nothing where there is no file, or rubbish of any kind or size.
std::optional<RankFile> read_rank_file(const std::string& folder, std::uint64_t rank);

/// Makes the folder where it is not there. Throws Error kIo.
void make_rank_folder(const std::string& folder);

}  // namespace feedrace::ranks
