// SPDX-License-Identifier: Apache-2.0
// What the I/O stage promises, seen from the loader: few and long reads where samples lie side by
// side, the way that was asked for, and errors of the sample at fault alone.
#include "feedrace/pipeline/read_stage.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/host/file_system.h"
#include "feedrace/pipeline/test_sets.h"
#include "feedrace/testing/faulty_backend.h"

namespace feedrace::pipeline {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::uint64_t total_bytes(const Stats& stats) {
  return std::accumulate(stats.bytes_by_path.begin(), stats.bytes_by_path.end(), std::uint64_t{0});
}

std::uint64_t bytes_by(const Stats& stats, Path path) {
  return stats.bytes_by_path[static_cast<std::size_t>(path)];
}

std::uint64_t folder_bytes(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".tar") bytes += entry.file_size();
  }
  return bytes;
}

/// Shards of small pictures; made once, since that takes longest.
class ReadStageTest : public ::testing::Test {
 protected:
  static constexpr int kSamples = 1200;

  static void SetUpTestSuite() {
    dir_ = new testing::TempDir();
    write_shards(*dir_, kSamples, 4);
  }
  static void TearDownTestSuite() { delete dir_; }

  static std::string shards() { return *dir_ / "shards"; }
  static LoaderOptions options_of(Shuffle shuffle) {
    LoaderOptions options = small_options(shards());
    std::get<RandomResizedCrop>(options.pipeline.steps.front()).size = {8, 8};
    options.shuffle = shuffle;
    options.shuffle_window = 192;
    options.last_batch = LastBatch::kPartial;
    return options;
  }
  static std::vector<Seen> load(const LoaderOptions& options) {
    Loader loader(options);
    return load_epoch(loader);
  }

  static testing::TempDir* dir_;
};
testing::TempDir* ReadStageTest::dir_ = nullptr;

TEST_F(ReadStageTest, ReadsNeighboursOfTheStoredOrderTogether) {
  Loader loader(options_of(Shuffle::kNone));
  load_epoch(loader);
  const Stats stats = loader.stats();
  EXPECT_LT(stats.reads, kSamples / 10);
  EXPECT_LT(static_cast<double>(total_bytes(stats)),
            1.3 * static_cast<double>(folder_bytes(shards())));
}

TEST_F(ReadStageTest, ReadsEachChunkOfAWindowOnce) {
  for (const PageCache page_cache : {PageCache::kKeep, PageCache::kDrop}) {
    LoaderOptions options = options_of(Shuffle::kWindow);
    options.page_cache = page_cache;
    Loader loader(options);
    load_epoch(loader);
    const Stats stats = loader.stats();
    // With what was read ahead for the next epoch: a window and the batches under way.
    EXPECT_LT(stats.reads, kSamples / 8);
    EXPECT_LT(static_cast<double>(total_bytes(stats)),
              1.3 * static_cast<double>(folder_bytes(shards())));
    EXPECT_THAT(loader.plan().warnings, ::testing::Not(Contains(HasSubstr("window"))));
  }
}

TEST_F(ReadStageTest, ReadsSamplesApartWhereNoneIsNear) {
  Loader loader(options_of(Shuffle::kGlobal));
  load_epoch(loader);
  // About 24 are known ahead of 1,200, and two of them are seldom neighbours.
  EXPECT_GT(loader.stats().reads, kSamples / 2);
}

TEST_F(ReadStageTest, GivesTheSameBatchesWithoutMemoryForTheWindow) {
  LoaderOptions options = options_of(Shuffle::kWindow);
  options.shuffle_window = 1024;
  const std::vector<Seen> expected = load(options);
  const Plan plan = Loader(options).plan();
  ASSERT_GT(plan.read_buffer_bytes, std::uint64_t{28} << 20);  // 16 MiB are the least.
  options.memory_limit_bytes = plan.memory_bytes - (std::uint64_t{8} << 20);
  Loader loader(options);
  EXPECT_THAT(loader.plan().warnings, Contains(HasSubstr("the shuffle window needs")));
  EXPECT_LE(loader.plan().memory_bytes, options.memory_limit_bytes);
  EXPECT_EQ(load_epoch(loader), expected);
}

TEST_F(ReadStageTest, DoesNotDependOnTheNumberOfBuffersThatHoldAWindow) {
  LoaderOptions options = options_of(Shuffle::kWindow);
  const std::vector<Seen> expected = load(options);
  for (const std::size_t depth : {1, 3, 64}) {
    for (const std::uint64_t chunk : {1, 5, 200}) {
      LoaderOptions other = options;
      other.queue_depth = depth;
      other.shuffle_chunk = chunk;
      std::set<std::uint64_t> seen;
      for (const Seen& batch : load(other)) seen.insert(batch.indices.begin(), batch.indices.end());
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(kSamples)) << depth << ", " << chunk;
    }
    options.queue_depth = depth;
    EXPECT_EQ(load(options), expected) << depth;
  }
}

/// All ways to read, over shards and a folder, where temporary files go.
class ReadWays : public ::testing::Test {
 protected:
  ReadWays() {
    const auto facts = host::probe_file_system(dir_.write("probe", std::string(8192, 'x')));
    has_direct_ = facts && facts->direct_alignment_bytes > 0;
  }
  void expect_path(const LoaderOptions& options, const Stats& stats) const {
    const std::uint64_t all = total_bytes(stats);
    EXPECT_GT(all, 0U);
    if (options.page_cache == PageCache::kKeep) {
      EXPECT_EQ(bytes_by(stats, Path::kPageCache), all);
    } else if (options.backend == "buffered") {
      EXPECT_EQ(bytes_by(stats, Path::kUncached), all);
    } else if (has_direct_) {
      EXPECT_EQ(bytes_by(stats, Path::kDirect), all);
      EXPECT_TRUE(stats.fallbacks.empty()) << stats.fallbacks.front().sentence;
    }
  }

  const testing::TempDir dir_;
  bool has_direct_ = false;
};

TEST_F(ReadWays, GiveTheSameBatchesAndSayHowTheyWent) {
  for (const std::string& source : {write_shards(dir_, 60, 3), write_folder(dir_, 60)}) {
    LoaderOptions options = small_options(source);
    options.shuffle = Shuffle::kGlobal;
    options.backend = "buffered";
    options.page_cache = PageCache::kKeep;
    const std::vector<Seen> expected = [&] {
      Loader loader(options);
      return load_epoch(loader);
    }();
    for (const char* backend : {"uring", "direct", "buffered"}) {
      for (const PageCache page_cache : {PageCache::kKeep, PageCache::kDrop}) {
        if (backend == std::string("direct") && page_cache == PageCache::kKeep)
          continue;  // Refused.
        for (const std::size_t threads : {1, 4}) {
          SCOPED_TRACE(fmt::format("{}, {}, {} threads, {}", source, backend, threads,
                                   page_cache == PageCache::kKeep ? "keep" : "drop"));
          options.backend = backend;
          options.page_cache = page_cache;
          options.thread_count = threads;
          Loader loader(options);
          EXPECT_EQ(load_epoch(loader), expected);
          expect_path(options, loader.stats());
        }
      }
    }
  }
}

/// Loads an epoch and compares what is good with an epoch without faults. Gives the bad samples.
std::set<std::uint64_t> bad_samples(Loader& loader, const std::vector<Seen>& intact) {
  std::set<std::uint64_t> bad;
  const std::vector<Seen> epoch = load_epoch(loader);
  EXPECT_EQ(epoch.size(), intact.size());
  for (std::size_t b = 0; b < std::min(epoch.size(), intact.size()); ++b) {
    const Seen& batch = epoch[b];
    EXPECT_EQ(batch.indices, intact[b].indices);
    const std::size_t bytes = batch.pixels.size() / batch.indices.size();
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      if (batch.flags[i] != SampleFlag{}) {
        bad.insert(batch.indices[i]);
        continue;
      }
      EXPECT_EQ(batch.pixels.substr(i * bytes, bytes), intact[b].pixels.substr(i * bytes, bytes));
    }
  }
  EXPECT_EQ(loader.stats().bad_samples, bad.size());
  return bad;
}

TEST(SharedExtents, BlameOnlyWhatLiesBehindTheEndOfAShard) {
  for (const PageCache page_cache : {PageCache::kKeep, PageCache::kDrop}) {
    for (const auto shuffle : {Shuffle::kNone, Shuffle::kWindow}) {
      const testing::TempDir dir;
      LoaderOptions options = small_options(write_shards(dir, 90, 2));
      options.shuffle = shuffle;
      options.page_cache = page_cache;
      options.on_error = OnError::kZero;
      options.last_batch = LastBatch::kPartial;
      const std::vector<Seen> intact = [&] {
        Loader loader(options);
        return load_epoch(loader);
      }();
      Loader loader(options);  // Knows the whole shard, which is cut in the middle of a sample.
      options.on_error = OnError::kRaise;
      Loader raising(options);
      const formats::Dataset& set = loader.dataset();
      const formats::Place cut = set.place(20);
      std::filesystem::resize_file(set.shards()[cut.shard], cut.offset_bytes + cut.size_bytes / 2);
      std::set<std::uint64_t> expected;
      for (std::uint64_t i = 20; set.place(i).shard == cut.shard; ++i) expected.insert(i);
      ASSERT_LT(expected.size(), 40U);
      EXPECT_EQ(bad_samples(loader, intact), expected);
      try {
        load_epoch(raising);
        ADD_FAILURE() << "a shard that is cut was read to its end";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("the shard ends "));
      }
    }
  }
}

TEST(SharedExtents, AreReadApartWhenTheyFail) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_shards(dir, 300, 3));
  options.on_error = OnError::kZero;
  options.last_batch = LastBatch::kPartial;
  testing::FaultPlan plan;
  plan.error_share = 0.3;
  for (const auto shuffle : {Shuffle::kNone, Shuffle::kWindow}) {
    for (plan.seed = 0; plan.seed < 4; ++plan.seed) {
      options.shuffle = shuffle;
      options.shuffle_window = 64;
      options.backend_factory = {};
      const std::vector<Seen> intact = [&] {
        Loader loader(options);
        return load_epoch(loader);
      }();
      options.backend_factory = [plan] {
        return std::make_unique<testing::FaultyBackend>(storage::simple_backend(32), plan);
      };
      Loader loader(options);
      const std::set<std::uint64_t> bad = bad_samples(loader, intact);
      // An extent fails by its first byte; of its samples those that fail alone, too.
      for (const std::uint64_t sample : bad) {
        const formats::Place place = loader.dataset().place(sample);
        EXPECT_EQ(testing::FaultyBackend::fault_of(plan, loader.dataset().shards()[place.shard],
                                                   place.offset_bytes),
                  testing::Fault::kError)
            << sample << " is read well when it is read alone";
      }
      EXPECT_GT(loader.stats().bad_samples, 0U);
    }
  }
}

}  // namespace
}  // namespace feedrace::pipeline
