// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "feedrace/format.h"

namespace feedrace::tools {

/// A tar shard of some of a data set's files, for a measurement: it is written to a folder, its
/// pages are given up, and it is gone with this object.
class PlainShard {
 public:
  /// Takes `limit_count` samples at even distances, as long as they have no more than `limit_bytes`
  /// together. Throws Error: kIo, kNotFound.
  PlainShard(const std::string& folder, const formats::Dataset& dataset, std::size_t limit_count,
             std::uint64_t limit_bytes);
  ~PlainShard();
  PlainShard(const PlainShard&) = delete;
  PlainShard& operator=(const PlainShard&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::size_t sample_count() const noexcept { return sample_count_; }

 private:
  std::string path_;
  std::size_t sample_count_ = 0;
};

}  // namespace feedrace::tools
