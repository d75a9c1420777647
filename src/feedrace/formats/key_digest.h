// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/shard_scan.h"

namespace feedrace::formats {

/// Tells whether two sets hold the same samples, whatever they are stored as: hashes canonical keys
/// and labels, and neither sizes nor places.
class KeyDigest {
 public:
  /// `label` counts only where `state` is `kOk`: -1 is a label like any other.
  void add(std::string_view key, LabelState state, std::int64_t label) noexcept;

  /// `Dataset::key_fingerprint()`: over keys and labels in the order in which they came.
  std::string in_order() const { return ordered_.text(); }
  /// `Dataset::key_set_fingerprint()`: over keys in any order, one that comes twice counted twice.
  std::string as_set() const;

 private:
  Fingerprint ordered_;
  std::uint64_t sum_ = 0;  // Of the keys' hashes, modulo 2^64.
  std::uint64_t count_ = 0;
};

}  // namespace feedrace::formats
