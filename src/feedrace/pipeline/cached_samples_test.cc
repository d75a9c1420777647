// SPDX-License-Identifier: Apache-2.0
// A loader whose samples are kept in memory that processes share. Shared memory itself is tested in
// storage/shared_cache_test.cc.

#include "feedrace/pipeline/cached_samples.h"

#include <unistd.h>

#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/loader.h"
#include "feedrace/pipeline/test_sets.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::pipeline {
namespace {

constexpr int kSamples = 40;

class CachedSamplesTest : public ::testing::TestWithParam<bool> {
 protected:
  LoaderOptions options(std::uint64_t limit_bytes = 4 << 20) const {
    LoaderOptions options = small_options(source_);
    options.shared_cache = SharedCache{limit_bytes, "", shared_.path().string()};
    options.batch_size = 8;
    return options;
  }
  static std::uint64_t bytes_read(const Stats& stats) {
    return std::accumulate(stats.bytes_by_path.begin(), stats.bytes_by_path.end(),
                           std::uint64_t{0});
  }

  void SetUp() override {
    source_ = GetParam() ? write_shards(dir_, kSamples, 3) : write_folder(dir_, kSamples);
  }

  testing::TempDir dir_;
  testing::TempDir shared_{"/dev/shm"};
  std::string source_;
};

INSTANTIATE_TEST_SUITE_P(All, CachedSamplesTest, ::testing::Bool(),
                         [](const auto& variant) { return variant.param ? "Shards" : "Folder"; });

TEST_P(CachedSamplesTest, ASecondLoaderReadsNothing) {
  LoaderOptions plain = options();
  plain.shared_cache.reset();
  Loader reference(plain);
  const auto expected = load_epoch(reference);

  Loader first(options());
  EXPECT_EQ(load_epoch(first), expected);
  Loader second(options());
  EXPECT_EQ(load_epoch(second), expected);
  const Stats stats = second.stats();
  ASSERT_TRUE(stats.shared_cache);
  EXPECT_GE(stats.shared_cache->hits, std::uint64_t{kSamples});
  EXPECT_EQ(stats.shared_cache->misses, 0U);
  EXPECT_EQ(bytes_read(stats), 0U);
  EXPECT_EQ(stats.shared_cache->entries, std::uint64_t{kSamples});
}

TEST_P(CachedSamplesTest, EachSampleIsReadOnceByRanksThatRunAtOnce) {
  std::vector<std::thread> ranks;
  std::vector<Stats> stats(4);
  const LoaderOptions common = options();
  std::vector<std::unique_ptr<Loader>> loaders;  // All open, so that the cache stays.
  for (std::size_t i = 0; i < stats.size(); ++i) {
    loaders.push_back(std::make_unique<Loader>(common));
  }
  for (std::size_t i = 0; i < stats.size(); ++i) {
    ranks.emplace_back([&, i] {
      for (int epoch = 0; epoch < 3; ++epoch) load_epoch(*loaders[i]);
      stats[i] = loaders[i]->stats();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  std::uint64_t misses = 0;
  for (const Stats& each : stats) misses += each.shared_cache->misses;
  EXPECT_EQ(misses, std::uint64_t{kSamples});
}

TEST_P(CachedSamplesTest, WhatDoesNotFitIsReadEachTime) {
  LoaderOptions options_of_little = options(1 << 20);
  // 256 pages: of 40 samples each fits, so fill it with others first.
  Loader loader(options_of_little);
  const auto cache = storage::SharedCache::open(
      {loader.plan().fingerprint, std::uint64_t{1} << 20, shared_.path().string()});
  ASSERT_TRUE(cache) << cache.error().message;
  for (std::uint64_t i = 0; i < 300; ++i) {
    auto found = (*cache)->find_or_claim({i, 1}, 4096);
    if (!found.claim) break;
    ASSERT_FALSE(found.claim.fill(4096).empty());
  }
  LoaderOptions plain = options_of_little;
  plain.shared_cache.reset();
  Loader reference(plain);
  EXPECT_EQ(load_epoch(loader), load_epoch(reference));
  EXPECT_GE(loader.stats().shared_cache->full, std::uint64_t{kSamples});
  EXPECT_EQ(loader.stats().shared_cache->hits, 0U);
}

TEST_P(CachedSamplesTest, ASampleThatIsCutShortIsNamedAndNotKept) {
  LoaderOptions cut = options();
  cut.on_error = OnError::kZero;
  Loader loader(cut);
  // Behind the loader's back, after it has opened the data.
  if (GetParam()) {
    const std::string shard = loader.dataset().shards().front();
    ASSERT_EQ(
        truncate(shard.c_str(), static_cast<off_t>(loader.dataset().place(0).offset_bytes + 1)), 0);
  } else {
    ASSERT_EQ(truncate(loader.dataset().path(0).c_str(), 10), 0);
  }
  load_epoch(loader);
  EXPECT_GE(loader.stats().bad_samples, 1U);
}

TEST(CachedSamplesRefusal, ALimitThatIsTooSmallIsAnErrorOfTheLoader) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 8));
  options.shared_cache = SharedCache{1000, "", dir.path().string()};
  EXPECT_THROW(Loader{options}, Error);
}

}  // namespace
}  // namespace feedrace::pipeline
