// SPDX-License-Identifier: Apache-2.0
// Shards on several devices: a reader each, and the same batches.

#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/pipeline/test_sets.h"

namespace feedrace::pipeline {
namespace {

using ::testing::HasSubstr;

dev_t device_of(const std::filesystem::path& path) {
  struct stat info{};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_dev;
}

/// Six shards that lie on one device, and copies of them spread over two.
class Devices : public ::testing::Test {
 protected:
  static constexpr int kSamples = 120;
  static constexpr int kShards = 6;

  void SetUp() override {
    if (device_of(here_.path()) == device_of(there_.path())) {
      GTEST_SKIP() << here_.path() << " and " << there_.path() << " are one file system";
    }
    write_shards(here_, kSamples, kShards);
    for (int i = 0; i < kShards; ++i) {
      const std::string name = fmt::format("{:02}.tar", i);
      const std::string original = here_ / ("shards/" + name);
      together_.push_back(original);
      const testing::TempDir& home = i % 3 == 1 ? there_ : here_;
      halves_.push_back(home.write("half/" + name, testing::read_file(original)));
      // The second device comes into it only with the last shard.
      const testing::TempDir& late = i + 1 == kShards ? there_ : here_;
      late_.push_back(late.write("late/" + name, testing::read_file(original)));
    }
  }

  static LoaderOptions options_of(const std::vector<std::string>& shards, Shuffle shuffle) {
    LoaderOptions options = small_options("");
    options.sources = shards;
    options.shuffle = shuffle;
    options.shuffle_chunk = 4;
    options.shuffle_window = 32;
    options.format.store_index = formats::StoreIndex::kNever;
    options.last_batch = LastBatch::kPartial;
    return options;
  }
  /// Two epochs.
  static std::vector<Seen> load(const LoaderOptions& options, std::size_t readers) {
    Loader loader(options);
    EXPECT_EQ(loader.plan().reader_threads, readers);
    EXPECT_THAT(loader.plan().to_text(), HasSubstr(fmt::format("{} I/O", readers)));
    std::vector<Seen> seen = load_epoch(loader);
    const std::vector<Seen> second = load_epoch(loader);
    seen.insert(seen.end(), second.begin(), second.end());
    return seen;
  }

  const testing::TempDir here_;
  const testing::TempDir there_{"/dev/shm"};
  std::vector<std::string> together_;
  std::vector<std::string> halves_;
  std::vector<std::string> late_;
};

TEST_F(Devices, GiveTheSameBatchesAsOne) {
  for (const auto shuffle : {Shuffle::kNone, Shuffle::kWindow, Shuffle::kGlobal}) {
    const std::vector<Seen> expected = load(options_of(together_, shuffle), 1);
    ASSERT_EQ(expected.size(), 2U * kSamples / 8);
    for (const auto& shards : {halves_, late_}) {
      LoaderOptions options = options_of(shards, shuffle);
      for (const std::size_t threads : {1, 2, 3, 4}) {
        options.thread_count = threads;
        options.page_cache = threads % 2 == 0 ? PageCache::kDrop : PageCache::kKeep;
        options.backend = threads > 2 ? "buffered" : "auto";
        EXPECT_EQ(load(options, 2), expected) << to_string(shuffle) << ", " << threads;
      }
    }
  }
}

TEST_F(Devices, GiveTheSameBatchesInTheSmallestWindow) {
  LoaderOptions options = options_of(together_, Shuffle::kGlobal);
  options.batch_size = 2;
  options.prefetch_factor = 1;
  options.queue_depth = 1;
  const std::vector<Seen> expected = load(options, 1);
  options.sources = halves_;
  EXPECT_EQ(load(options, 2), expected);
}

TEST_F(Devices, TakeTurnsSampleBySample) {
  LoaderOptions options = options_of(together_, Shuffle::kNone);
  options.batch_size = 1;
  options.prefetch_factor = 1;
  const std::vector<Seen> expected = load(options, 1);
  options.sources = halves_;
  options.timeout_seconds = 20;
  EXPECT_EQ(load(options, 2), expected);
}

TEST_F(Devices, GoOnFromAStateOfOne) {
  Loader one(options_of(together_, Shuffle::kGlobal));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(one.next());
  const std::string state = one.state();
  const std::vector<Seen> rest = load_epoch(one);
  Loader two(options_of(halves_, Shuffle::kGlobal));
  two.load_state(state);
  EXPECT_EQ(load_epoch(two), rest);
}

TEST_F(Devices, EndWithReadsOfBothInFlight) {
  for (int batches = 0; batches < 8; ++batches) {
    Loader loader(options_of(halves_, Shuffle::kGlobal));
    for (int i = 0; i < batches; ++i) ASSERT_TRUE(loader.next());
  }
}

}  // namespace
}  // namespace feedrace::pipeline
