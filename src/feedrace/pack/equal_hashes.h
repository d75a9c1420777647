// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "feedrace/formats/posix_file.h"

namespace feedrace::pack {

/// Finds hashes that come more than once among any number of them: what does not fit in memory is
/// sorted in runs in a file without a name, and merged.
class EqualHashes {
 public:
  struct Record {
    std::uint64_t hash = 0;
    std::uint32_t unit = 0;
    std::uint32_t sample = 0;  ///< In the unit.

    friend auto operator<=>(const Record&, const Record&) = default;
  };
  /// 16 bytes each.
  static constexpr std::size_t kDefaultInMemory = std::size_t{16} << 20;

  explicit EqualHashes(std::size_t records_in_memory = kDefaultInMemory)
      : limit_(records_in_memory) {}

  /// Throws Error kIo when the file can't be written.
  void add(const Record& record);
  /// Calls `take` with each group of equal hashes of two and more, ordered by hash, then unit and
  /// sample, until it returns false. Nothing can be added afterwards. Throws Error kIo.
  void each_group(const std::function<bool(std::span<const Record>)>& take);

 private:
  struct Run {
    std::uint64_t begin = 0;  // In records.
    std::uint64_t count = 0;
  };
  class Reader;

  void spill();

  const std::size_t limit_;
  std::vector<Record> records_;
  formats::Fd file_;
  std::vector<Run> runs_;
};

}  // namespace feedrace::pack
