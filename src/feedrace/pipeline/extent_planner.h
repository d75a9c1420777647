// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace feedrace::pipeline {

/// Where a sample that is wanted soon lies. Tickets grow in the order in which samples are due.
struct Wanted {
  std::uint64_t ticket = 0;
  std::uint32_t shard = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

/// One read that serves one sample or several.
struct PlannedExtent {
  std::uint64_t begin_bytes = 0;  ///< A multiple of the alignment.
  std::uint64_t end_bytes = 0;    ///< Likewise; may lie behind the end of the file.
  std::vector<std::uint64_t> tickets;
};

/// Turns samples that are wanted soon into reads: the one that is due first says where, and those
/// that lie beside it in the shard ride along, wherever they stand in the order. Holds what is
/// known to be wanted and is not read yet. Not thread-safe; no I/O.
class ExtentPlanner {
 public:
  struct Options {
    std::uint64_t max_bytes = 0;  ///< Of an extent that serves several samples.
    /// Samples share a read when what lies between them is no more than this.
    std::uint64_t max_gap_bytes = 0;
  };
  explicit ExtentPlanner(const Options& options) : options_(options) {}

  void add(const Wanted& wanted);
  /// Takes out what is due now and its neighbours. `last_ticket`: those due later stay. The wanted
  /// one must have been added; `alignment_bytes` is a power of two.
  PlannedExtent take(const Wanted& wanted, std::uint64_t last_ticket,
                     std::uint64_t alignment_bytes);
  /// Takes out one alone.
  void remove(const Wanted& wanted);

  std::size_t size() const noexcept { return wanted_.size(); }

 private:
  using Key = std::pair<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t>;
  static Key key_of(const Wanted& wanted) {
    return {{wanted.shard, wanted.offset_bytes}, wanted.ticket};
  }

  const Options options_;
  std::map<Key, std::uint64_t> wanted_;  // Shard, offset, ticket -> size.
};

}  // namespace feedrace::pipeline
