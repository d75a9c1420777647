// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small data sets of arrays for the tests of this folder.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/loader.h"
#include "feedrace/pipeline/test_sets.h"
#include "feedrace/testing/npy.h"

namespace feedrace::pipeline {

/// The numbers of sample `i`: `count` float32, each of which says whose and which it is.
inline std::string test_numbers(int i, std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t at = 0; at < count; ++at) {
    numbers[at] = static_cast<float>(i) * 1000 + static_cast<float>(at % 1000);
  }
  std::string bytes(count * sizeof(float), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

/// float32 [2, columns].
inline std::string test_array(int i, std::size_t columns) {
  return testing::npy("<f4", fmt::format("2, {}", columns), test_numbers(i, 2 * columns));
}

/// A class folder for each label, as `write_folder` has it, of arrays.
inline std::string write_array_folder(const testing::TempDir& dir, int count, std::size_t columns) {
  for (int i = 0; i < count; ++i) {
    dir.write(fmt::format("arrays/c{}/{}.npy", i % kTestClasses, test_key(i)),
              test_array(i, columns));
  }
  return dir / "arrays";
}

/// The same with captions and labels in one tar, by number.
inline std::string write_array_shards(const testing::TempDir& dir, int count, std::size_t columns) {
  std::string tar;
  for (int i = 0; i < count; ++i) {
    tar += testing::tar_member(test_key(i) + ".txt", "caption of " + test_key(i));
    tar += testing::tar_member(test_key(i) + ".npy", test_array(i, columns));
    tar += testing::tar_member(test_key(i) + ".cls", std::to_string(i % kTestClasses));
  }
  dir.write("array-shards/0.tar", tar + testing::tar_end());
  return dir / "array-shards";
}

inline LoaderOptions raw_options(const std::string& source) {
  LoaderOptions options = small_options(source);
  options.pipeline = Pipeline::recipe("raw");
  return options;
}

/// The number of a sample, by its key: "c1/004.npy", "004".
inline int test_number(const formats::Dataset& dataset, std::uint64_t sample) {
  const std::string key = dataset.key(sample);
  return std::stoi(key.substr(key.find('/') + 1));
}

}  // namespace feedrace::pipeline
