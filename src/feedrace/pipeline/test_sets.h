// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small data sets for the tests of this folder.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/loader.h"
#include "feedrace/storage/backends.h"
#include "feedrace/testing/images.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::pipeline {

inline constexpr int kTestClasses = 3;

/// The key of sample `i`, whose label is `i % kTestClasses`, the same in folder and shards.
inline std::string test_key(int i) { return fmt::format("{:03}", i); }
inline std::string test_jpeg(int i) {
  return testing::make_jpeg(40 + static_cast<std::uint32_t>(i % 7) * 9,
                            48 + static_cast<std::uint32_t>(i % 5) * 8,
                            static_cast<std::uint32_t>(i));
}

/// A class folder for each label, `count` pictures in all, sorted by class.
inline std::string write_folder(const testing::TempDir& dir, int count) {
  for (int i = 0; i < count; ++i) {
    dir.write(fmt::format("folder/c{}/{}.jpg", i % kTestClasses, test_key(i)), test_jpeg(i));
  }
  return dir / "folder";
}

/// The same pictures with .cls members, in the folder's order, dealt over `shards` tars.
inline std::string write_shards(const testing::TempDir& dir, int count, int shards) {
  std::vector<int> order;
  for (int label = 0; label < kTestClasses; ++label) {
    for (int i = label; i < count; i += kTestClasses) order.push_back(i);
  }
  const int per_shard = (count + shards - 1) / shards;
  for (int shard = 0; shard < shards; ++shard) {
    std::string tar;
    for (int at = shard * per_shard; at < std::min(count, (shard + 1) * per_shard); ++at) {
      const int i = order[static_cast<std::size_t>(at)];
      tar += testing::tar_member(test_key(i) + ".jpg", test_jpeg(i));
      tar += testing::tar_member(test_key(i) + ".cls", std::to_string(i % kTestClasses));
    }
    dir.write(fmt::format("shards/{:02}.tar", shard), tar + testing::tar_end());
  }
  return dir / "shards";
}

inline LoaderOptions small_options(const std::string& source) {
  LoaderOptions options;
  options.sources = {source};
  options.pipeline = Pipeline::recipe("imagenet-train");
  std::get<RandomResizedCrop>(options.pipeline.steps.front()).size = {24, 24};
  options.batch_size = 8;
  options.thread_count = 2;
  options.timeout_seconds = 60;
  return options;
}

/// What a consumer remembers of a batch.
struct Seen {
  std::vector<std::uint64_t> indices;
  std::vector<std::int64_t> labels;
  std::vector<SampleFlag> flags;
  std::string pixels;

  friend bool operator==(const Seen&, const Seen&) = default;
};

inline Seen remember(const Batch& batch) {
  const auto* labels = static_cast<const std::int64_t*>(batch.labels.data);
  std::string pixels(static_cast<const char*>(batch.images.data), batch.images.size_bytes());
  for (const Tensor& image : batch.image_list) {
    if (image.device < 0) pixels.append(static_cast<const char*>(image.data), image.size_bytes());
  }
  return {{batch.indices.begin(), batch.indices.end()},
          {labels, labels + batch.size()},
          {batch.flags.begin(), batch.flags.end()},
          pixels};
}

inline std::vector<Seen> load_epoch(Loader& loader) {
  std::vector<Seen> epoch;
  while (const auto batch = loader.next()) epoch.push_back(remember(*batch));
  return epoch;
}

}  // namespace feedrace::pipeline
