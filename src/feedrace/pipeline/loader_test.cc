// SPDX-License-Identifier: Apache-2.0
// The promises of the loader on real files: right, complete, the same everywhere.
#include "feedrace/loader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/pipeline/test_sets.h"

namespace feedrace::pipeline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Loader, DeliversEverySampleOfAnEpochOnceWithItsLabel) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 50));
  options.last_batch = LastBatch::kPartial;
  Loader loader(options);
  EXPECT_EQ(loader.plan().steps, 7u);
  std::set<std::uint64_t> seen;
  for (const Seen& batch : load_epoch(loader)) {
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      EXPECT_TRUE(seen.insert(batch.indices[i]).second);
      const std::string key = loader.dataset().key(batch.indices[i]);  // "c1/004.jpg"
      EXPECT_EQ(batch.labels[i], key[1] - '0') << key;
    }
  }
  EXPECT_EQ(seen.size(), 50u);
}

TEST(Loader, GivesTheSameBytesOnAnyNumberOfThreadsAndAnyBackend) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 41);
  LoaderOptions options = small_options(folder);
  options.thread_count = 1;
  options.backend = "buffered";
  const std::vector<Seen> expected = [&] {
    Loader loader(options);
    return load_epoch(loader);
  }();
  ASSERT_THAT(expected, SizeIs(5));
  for (const char* backend : {"buffered", "uring"}) {
    for (const std::size_t threads : {1, 2, 4, 8}) {
      options.backend = backend;
      options.thread_count = threads;
      options.queue_depth = threads;  // Another depth is another order of completions.
      Loader loader(options);
      EXPECT_EQ(load_epoch(loader), expected) << backend << ", " << threads << " threads";
    }
  }
}

/// Takes a tree's pages out of the page cache, where its file system lets go of them.
void evict(const std::filesystem::path& root) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

TEST(Loader, GivesTheSameBytesFromAColdAndAWarmCache) {
  const testing::TempDir dir;
  for (const std::string& source : {write_folder(dir, 30), write_shards(dir, 30, 4)}) {
    LoaderOptions options = small_options(source);
    std::vector<std::vector<Seen>> epochs;
    for (const char* backend : {"buffered", "uring"}) {
      options.backend = backend;
      evict(dir.path());
      for (int warm = 0; warm < 2; ++warm) {
        Loader loader(options);
        epochs.push_back(load_epoch(loader));
      }
    }
    EXPECT_THAT(epochs, Each(epochs.front())) << source;
  }
}

TEST(Loader, TwoAtOnceEachGiveTheSeriesOfOneAlone) {
  const testing::TempDir dir;
  LoaderOptions one = small_options(write_shards(dir, 40, 3));
  LoaderOptions two = one;
  two.seed = 5;
  Loader alone_one(one);
  Loader alone_two(two);
  const auto expected_one = load_epoch(alone_one);
  const auto expected_two = load_epoch(alone_two);
  Loader first(one);
  Loader second(two);
  for (std::size_t i = 0; i < expected_one.size(); ++i) {
    EXPECT_EQ(remember(*first.next()), expected_one[i]);
    EXPECT_EQ(remember(*second.next()), expected_two[i]);
  }
}

TEST(Loader, GivesTheSameBytesFromFolderAndShards) {
  const testing::TempDir dir;
  Loader from_folder(small_options(write_folder(dir, 30)));
  Loader from_shards(small_options(write_shards(dir, 30, 4)));
  EXPECT_EQ(from_shards.plan().shard_count, 4u);
  EXPECT_EQ(load_epoch(from_folder), load_epoch(from_shards));
}

TEST(Loader, EpochsDifferAndRepeatFromTheirNumber) {
  const testing::TempDir dir;
  const LoaderOptions options = small_options(write_folder(dir, 24));
  Loader loader(options);
  const auto first = load_epoch(loader);
  EXPECT_EQ(loader.epoch(), 1u);
  const auto second = load_epoch(loader);
  EXPECT_NE(first, second);
  loader.set_epoch(0);
  EXPECT_EQ(load_epoch(loader), first);
  Loader other(options);
  other.set_epoch(1);
  EXPECT_EQ(load_epoch(other), second);
}

TEST(Loader, SetEpochInTheMiddleBeginsThatEpochAnew) {
  const testing::TempDir dir;
  Loader loader(small_options(write_folder(dir, 24)));
  const Seen first = remember(*loader.next());
  loader.next();
  loader.set_epoch(0);
  EXPECT_EQ(remember(*loader.next()), first);
}

TEST(Loader, WithoutShuffleKeepsTheStoredOrderAndSharesReads) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_shards(dir, 32, 2));
  options.shuffle = Shuffle::kNone;
  options.prefetch_factor = 1;
  Loader loader(options);
  std::vector<std::uint64_t> order;
  for (const Seen& batch : load_epoch(loader)) {
    order.insert(order.end(), batch.indices.begin(), batch.indices.end());
  }
  std::vector<std::uint64_t> expected(32);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = i;
  EXPECT_EQ(order, expected);
  EXPECT_LE(loader.stats().reads, 16u);  // 16 samples of a few KB a shard fit into one buffer.
}

TEST(Loader, SaysHowFullItsQueuesAre) {
  const testing::TempDir dir;
  Loader loader(small_options(write_shards(dir, 32, 2)));
  EXPECT_THAT(loader.queue_levels(), IsEmpty());
  const auto batch = loader.next();
  std::vector<std::string> names;
  for (const QueueLevel& queue : loader.queue_levels()) names.push_back(queue.name);
  EXPECT_THAT(names, ElementsAre("reads in flight", "free read buffers", "samples to decode",
                                 "batches in work", "batches ready"));
}

TEST(Loader, FillsTheLastBatchWithFlaggedRepeats) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 11));
  options.last_batch = LastBatch::kFill;
  Loader loader(options);
  const auto epoch = load_epoch(loader);
  ASSERT_THAT(epoch, SizeIs(2));
  EXPECT_EQ(std::count(epoch[1].flags.begin(), epoch[1].flags.end(), SampleFlag::kPadded), 5);
  for (std::size_t i = 3; i < 8; ++i) EXPECT_EQ(epoch[1].indices[i], epoch[0].indices[i - 3]);
  EXPECT_EQ(loader.stats().padded_samples, 5u);
  EXPECT_EQ(loader.stats().samples, 11u);
}

TEST(Loader, ReadsSamplesLargerThanABuffer) {
  const testing::TempDir dir;
  const std::string large = testing::make_jpeg(900, 700, 5, /*quality=*/100);
  ASSERT_GT(large.size(), kDefaultBufferBytes);
  for (int i = 0; i < 6; ++i)
    dir.write("folder/a/" + test_key(i) + ".jpg", i % 2 ? large : test_jpeg(i));
  std::string tar;
  for (int i = 0; i < 6; ++i) {
    tar += testing::tar_member(test_key(i) + ".jpg", i % 2 ? large : test_jpeg(i));
    tar += testing::tar_member(test_key(i) + ".cls", "0");
  }
  dir.write("shards/0.tar", tar + testing::tar_end());
  for (const char* backend : {"buffered", "uring"}) {
    LoaderOptions options = small_options(dir / "folder");
    options.batch_size = 6;
    options.backend = backend;
    Loader from_folder(options);
    options.sources = {dir / "shards"};
    Loader from_shards(options);
    const auto epoch = load_epoch(from_folder);
    ASSERT_THAT(epoch, SizeIs(1)) << backend;
    EXPECT_EQ(epoch, load_epoch(from_shards)) << backend;
  }
}

TEST(Loader, CountsBytesByThePathThatTheyTook) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 16));
  Loader loader(options);
  load_epoch(loader);
  const Stats stats = loader.stats();
  EXPECT_GT(stats.bytes_by_path[static_cast<std::size_t>(Path::kPageCache)], 16u * 500);
  EXPECT_EQ(stats.bytes_by_path[static_cast<std::size_t>(Path::kNetwork)], 0u);
  EXPECT_DOUBLE_EQ(stats.copies_per_byte(), 1);
  EXPECT_GE(stats.read_latency.count(), 16u);
  EXPECT_EQ(stats.batches, 2u);
}

TEST(Loader, WritesEveryTypeAndLayoutThatThePipelineAsksFor) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 8);
  LoaderOptions options = small_options(folder);
  options.pipeline.dtype = DType::kFloat32;
  options.pipeline.layout = Layout::kHwc;
  Loader wide(options);
  const auto batch = wide.next();
  EXPECT_EQ(batch->images.shape, (std::vector<std::int64_t>{8, 24, 24, 3}));
  EXPECT_EQ(batch->images.size_bytes(), std::size_t{8} * 24 * 24 * 3 * 4);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch->images.data) % 64, 0u);

  options.pipeline.dtype = DType::kUint8;
  options.pipeline.mean.clear();
  options.pipeline.std.clear();
  Loader bytes(options);
  const auto pixels = bytes.next();
  const auto* floats = static_cast<const float*>(batch->images.data);
  const auto* levels = static_cast<const std::uint8_t*>(pixels->images.data);
  for (std::size_t i = 0; i < pixels->images.size_bytes(); ++i) {
    const float expected =
        (static_cast<float>(levels[i]) / 255.0F - kImagenetMean[i % 3]) / kImagenetStd[i % 3];
    ASSERT_EQ(floats[i], expected) << i;
  }
}

TEST(Loader, PlanSaysWhatTheDefaultsAre) {
  const testing::TempDir dir;
  LoaderOptions options;
  options.sources = {write_folder(dir, 70)};
  Loader loader(options);
  EXPECT_EQ(loader.plan().queue_depth, 32u);
  EXPECT_EQ(loader.plan().prefetch_factor, 3u);
  EXPECT_EQ(loader.plan().read_buffer_bytes, std::uint64_t{64} * 256 * 1024);
  EXPECT_EQ(loader.plan().steps, 1u);
  EXPECT_EQ(loader.plan().dropped_samples, 6u);
  EXPECT_EQ(loader.plan().batch_slot_bytes / (std::uint64_t{64} * 3 * 224 * 224 * 2), 5u);
  EXPECT_THAT(loader.plan().to_text(), HasSubstr("image folder, 70 samples, 3 classes"));
  EXPECT_THAT(loader.plan().to_json(), HasSubstr("\"dropped_samples\": 6"));
}

TEST(Loader, RefusesOptionsOutOfRangeAndNamesTheRange) {
  const testing::TempDir dir;
  const LoaderOptions good = small_options(write_folder(dir, 9));
  const auto message_of = [&](auto change) {
    LoaderOptions options = good;
    change(options);
    try {
      const Loader loader(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message_of([](auto& o) { o.batch_size = 0; }), HasSubstr("batch_size is 0"));
  EXPECT_THAT(message_of([](auto& o) { o.queue_depth = 1'000'000; }), HasSubstr("from 1 to 4096"));
  EXPECT_THAT(message_of([](auto& o) { o.prefetch_factor = 0; }),
              HasSubstr("prefetch_factor is 0"));
  EXPECT_THAT(message_of([](auto& o) { o.backend = "floppy"; }), HasSubstr("floppy"));
  EXPECT_THAT(message_of([](auto& o) { o.memory_limit_bytes = 1000; }), HasSubstr("memory limit"));
  EXPECT_THAT(message_of([](auto& o) { o.pipeline.std = {1, 0, 1}; }), HasSubstr("std"));
  EXPECT_THAT(message_of([](auto& o) { o.batch_size = 10; }), HasSubstr("9 samples"));
}

/// Turns the picture upside down.
class FlipVertically final : public ops::Op {
 public:
  std::string_view name() const noexcept override { return "flip_vertically"; }
  ops::ImageSize plan(ops::ImageSize input) const override { return input; }
  void run(const ops::ConstImageView& in, const ops::ImageView& out, SampleRandom&) const override {
    for (std::uint32_t y = 0; y < in.height_px; ++y) {
      std::copy_n(in.rgb + (in.height_px - 1 - y) * in.row_bytes, std::size_t{3} * in.width_px,
                  out.rgb + y * out.row_bytes);
    }
  }
};

TEST(Loader, RunsOwnOpsBetweenResizingAndNormalisation) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 8));
  options.pipeline.layout = Layout::kHwc;
  Loader plain(options);
  const Seen expected = remember(*plain.next());
  options.pipeline.steps.emplace_back(std::make_shared<FlipVertically>());
  Loader flipped(options);
  EXPECT_THAT(flipped.plan().pipeline, HasSubstr("flip_vertically (not fused)"));
  const Seen got = remember(*flipped.next());
  const std::size_t row = 24 * 3 * 2;
  for (std::size_t image = 0; image < 8; ++image) {
    for (std::size_t y = 0; y < 24; ++y) {
      EXPECT_EQ(got.pixels.substr((image * 24 + y) * row, row),
                expected.pixels.substr((image * 24 + 23 - y) * row, row));
    }
  }
}

TEST(Loader, BatchesMayOutliveTheirLoader) {
  const testing::TempDir dir;
  std::optional<Batch> kept;
  Seen seen;
  {
    Loader loader(small_options(write_folder(dir, 24)));
    kept = loader.next();
    seen = remember(*kept);
  }
  EXPECT_EQ(remember(*kept), seen);  // AddressSanitizer reports it if the memory went.
}

TEST(Loader, NeverOverwritesABatchThatIsKept) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 160));
  Loader loader(options);
  std::vector<Batch> kept;
  std::vector<Seen> seen;
  while (auto batch = loader.next()) {
    seen.push_back(remember(*batch));
    kept.push_back(std::move(*batch));
  }
  ASSERT_THAT(kept, SizeIs(20));
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(remember(kept[i]), seen[i]) << i;
  EXPECT_GE(loader.stats().extra_slots, 15u);
}

}  // namespace
}  // namespace feedrace::pipeline
