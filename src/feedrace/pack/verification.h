// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "feedrace/pack/bad_list.h"
#include "feedrace/pack/equal_hashes.h"
#include "feedrace/pack/verify_run.h"
#include "feedrace/verify.h"

namespace feedrace::pack {

/// Findings by kind, as they come.
class FindingList {
 public:
  static constexpr std::size_t kExamplesKept = 5;

  void add(const Found& found);
  /// Bad ones first, otherwise as they came.
  std::vector<VerifyReport::Finding> take();

 private:
  std::vector<VerifyReport::Finding> kinds_;
};

/// What is gathered of a set, unit by unit in order.
class Gathering {
 public:
  explicit Gathering(const VerifyOptions& options)
      : refuses_flagged_(options.refuses_flagged), list_(options.bad_file) {}

  void take(std::size_t unit, OpenedUnit& opened, std::vector<PieceFindings>& pieces);
  void add(const Found& found) { findings_.add(found); }
  /// Lists the sample and counts it; `sample` is its number in the set.
  void add_bad(const BadSample& sample);

  /// Number in the set of a unit's first sample that has a picture.
  std::uint64_t first_number(std::size_t unit) const noexcept { return first_numbers_[unit]; }
  /// Units with samples without a label.
  const std::vector<std::size_t>& unlabelled_units() const noexcept { return unlabelled_units_; }
  EqualHashes& keys() noexcept { return keys_; }
  std::uint64_t bad_count() const noexcept { return bad_count_; }

  std::vector<VerifyReport::Finding> findings() { return findings_.take(); }
  void publish() { list_.publish(); }

 private:
  void add_picture(const BadSample& sample);

  const bool refuses_flagged_;
  BadListFile list_;
  FindingList findings_;
  EqualHashes keys_;
  std::vector<std::uint64_t> first_numbers_;
  std::uint64_t next_number_ = 0;
  std::vector<std::size_t> unlabelled_units_;
  std::uint64_t bad_count_ = 0;
};

}  // namespace feedrace::pack
