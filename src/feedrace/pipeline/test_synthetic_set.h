// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/format.h"
#include "feedrace/order/state.h"
#include "feedrace/testing/images.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::pipeline {

/// A set of any number of samples, all of them the same small picture, that takes no memory.
class SyntheticSet : public formats::Dataset {
 public:
  explicit SyntheticSet(std::uint64_t size)
      : size_(size), picture_(dir_.write("picture.jpg", testing::make_jpeg(32, 32, 1))) {}

  std::string_view kind() const noexcept override { return "synthetic set"; }
  std::uint64_t size() const noexcept override { return size_; }
  formats::Place place(std::uint64_t) const noexcept override { return {}; }
  std::string path(std::uint64_t) const override { return picture_; }
  std::string key(std::uint64_t sample) const override { return std::to_string(sample); }
  Result<std::int64_t> label(std::uint64_t sample) const override {
    return static_cast<std::int64_t>(sample);
  }
  std::string where(std::uint64_t sample) const override { return key(sample); }
  const std::vector<std::string>& shards() const noexcept override { return none_; }
  const std::vector<std::string>& classes() const noexcept override { return none_; }
  const std::vector<std::string>& warnings() const noexcept override { return none_; }
  std::string fingerprint() const override { return "0123456789abcdef"; }
  std::uint64_t max_image_bytes() const noexcept override { return formats::Place::kUnknownSize; }
  double mean_image_bytes() const noexcept override { return 0; }
  std::string label_source() const override { return "sample numbers"; }

  /// `state` moved to another place.
  static std::string state_at(const std::string& state, std::uint64_t epoch,
                              std::uint64_t position) {
    order::State parsed = *order::parse_state(state);
    parsed.epoch = epoch;
    parsed.position = position;
    return order::to_json(parsed);
  }

 private:
  const testing::TempDir dir_;
  const std::uint64_t size_;
  const std::string picture_;
  const std::vector<std::string> none_;
};

}  // namespace feedrace::pipeline
