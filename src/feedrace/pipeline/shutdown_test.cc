// SPDX-License-Identifier: Apache-2.0
// Each line of the shutdown specification in ARCHITECTURE.md, and every way in which a sample, a
// stage, the consumer or the process can end a run early.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/loader.h"
#include "feedrace/pipeline/test_sets.h"
#include "feedrace/testing/faulty_backend.h"
#include "feedrace/testing/slow_backend.h"

namespace feedrace::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::size_t thread_count() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

/// Threads of this process before the test makes any. The first thread ever brings the thread
/// sanitizer's own with it, so one is made and joined.
std::size_t baseline_thread_count() {
  std::thread([] {}).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // Until it is off the list.
  return thread_count();
}

/// Waits until the process has so many threads: the kernel lists a joined one for a moment longer.
bool thread_count_becomes(std::size_t expected) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (thread_count() != expected) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

std::string error_of(Loader& loader, ErrorCode code) {
  try {
    while (loader.next()) {
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "the epoch ended without an error";
  return {};
}

/// Replaces picture `i` of the folder by bytes that are none.
void spoil(const testing::TempDir& dir, int i) {
  dir.write("folder/c" + std::to_string(i % kTestClasses) + "/" + test_key(i) + ".jpg",
            "no picture");
}

std::function<std::unique_ptr<storage::Backend>()> faulty(testing::FaultPlan plan) {
  return [plan] {
    return std::make_unique<testing::FaultyBackend>(storage::simple_backend(32), plan);
  };
}

TEST(Shutdown, EndOfDataLeavesTheThreadsToTheNextEpochAndTheDestructorEndsThem) {
  const testing::TempDir dir;
  const std::size_t before = baseline_thread_count();
  {
    LoaderOptions options = small_options(write_folder(dir, 24));
    options.backend = "buffered";
    Loader loader(options);
    EXPECT_TRUE(thread_count_becomes(before));  // None before the first batch is asked for.
    EXPECT_THAT(load_epoch(loader), SizeIs(3));
    EXPECT_THAT(load_epoch(loader), SizeIs(3));
    // The reader, the 8 of its back end, that of the socket, the decode threads.
    EXPECT_TRUE(thread_count_becomes(before + 10 + loader.plan().decode_threads));
  }
  EXPECT_TRUE(thread_count_becomes(before));
}

TEST(Shutdown, ABadSampleRaisesWithPlaceFindingAndAdviceInOneLine) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  spoil(dir, 4);
  Loader loader(options);
  const std::string message = error_of(loader, ErrorCode::kCorruptData);
  EXPECT_THAT(message, HasSubstr("c1/004.jpg"));
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(error_of(loader, ErrorCode::kCorruptData), message);  // It stays so.
}

TEST(Shutdown, TheBatchesBeforeABadSampleAreDelivered) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  options.shuffle = Shuffle::kNone;
  const Loader probe(options);
  spoil(dir, 23);  // The last of the stored order.
  Loader loader(options);
  EXPECT_TRUE(loader.next());
  EXPECT_TRUE(loader.next());
  EXPECT_THROW(loader.next(), Error);
}

TEST(Shutdown, ReplaceFillsTheBatchWithAnotherSampleAlwaysTheSame) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  spoil(dir, 4);
  spoil(dir, 9);
  options.on_error = OnError::kReplace;
  options.quarantine_file = dir / "bad.jsonl";
  const auto run = [&](std::size_t threads) {
    options.thread_count = threads;
    Loader loader(options);
    auto epoch = load_epoch(loader);
    EXPECT_EQ(loader.stats().samples, 24u);
    return epoch;
  };
  const auto epoch = run(1);
  EXPECT_EQ(epoch, run(4));
  std::size_t substituted = 0;
  for (const Seen& batch : epoch) {
    EXPECT_THAT(batch.indices, SizeIs(8));
    for (const SampleFlag flag : batch.flags) substituted += flag == SampleFlag::kSubstituted;
  }
  EXPECT_EQ(substituted, 2u);
}

TEST(Shutdown, TheQuarantineFileNamesEachBadSampleOnceARun) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  spoil(dir, 4);
  options.on_error = OnError::kZero;
  options.quarantine_file = dir / "bad.jsonl";
  {
    Loader loader(options);
    load_epoch(loader);
    load_epoch(loader);
  }
  const std::string text = testing::read_file(dir / "bad.jsonl");
  ASSERT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  const auto line = nlohmann::json::parse(text);
  EXPECT_EQ(line["key"], "c1/004.jpg");
  EXPECT_EQ(line["offset"], 0);
  EXPECT_THAT(line["reason"].get<std::string>(), HasSubstr("004.jpg"));
}

TEST(Shutdown, ASampleThatTheDecoderComplainsAboutIsDeliveredCountedAndNamed) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  const std::string whole = test_jpeg(4);
  dir.write("folder/c1/004.jpg", whole.substr(0, whole.size() - 2));  // Without its end marker.
  options.quarantine_file = dir / "bad.jsonl";
  Loader loader(options);
  EXPECT_THAT(load_epoch(loader), SizeIs(3));
  const Stats stats = loader.stats();
  EXPECT_EQ(stats.flagged_samples, 1u);
  ASSERT_THAT(stats.complaints, SizeIs(1));
  EXPECT_THAT(stats.complaints[0], HasSubstr("c1/004.jpg"));
  const auto line = nlohmann::json::parse(testing::read_file(dir / "bad.jsonl"));
  EXPECT_EQ(line["code"], "flagged");
  EXPECT_EQ(line["key"], "c1/004.jpg");
}

TEST(Shutdown, ZeroBlanksTheSampleAndKeepsItsLabel) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  spoil(dir, 4);
  options.on_error = OnError::kZero;
  Loader loader(options);
  std::size_t blanks = 0;
  const std::size_t image_bytes = 3 * 24 * 24 * 2;
  for (const Seen& batch : load_epoch(loader)) {
    for (std::size_t i = 0; i < batch.flags.size(); ++i) {
      if (batch.flags[i] != SampleFlag::kBlank) continue;
      ++blanks;
      EXPECT_EQ(batch.labels[i], 1);
      EXPECT_EQ(batch.pixels.substr(i * image_bytes, image_bytes), std::string(image_bytes, '\0'));
    }
  }
  EXPECT_EQ(blanks, 1u);
  EXPECT_EQ(loader.stats().blanked_samples, 1u);
}

TEST(Shutdown, MoreBadSamplesThanTheBudgetEndTheRun) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  for (const int i : {1, 2, 3, 4}) spoil(dir, i);
  options.on_error = OnError::kReplace;
  options.error_budget = 3;
  Loader strict(options);
  EXPECT_THAT(error_of(strict, ErrorCode::kCorruptData), HasSubstr("above the budget of 3"));
  options.error_budget = 4;
  Loader lenient(options);
  EXPECT_THAT(load_epoch(lenient), SizeIs(3));
  options.error_budget_share = 0.1;  // 2 of 24.
  Loader share(options);
  EXPECT_THAT(error_of(share, ErrorCode::kCorruptData), HasSubstr("above the budget of 2"));
}

TEST(Shutdown, ASetOfBadSamplesOnlyIsAnErrorNotALoop) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 9));
  for (int i = 0; i < 9; ++i) spoil(dir, i);
  options.on_error = OnError::kReplace;
  Loader loader(options);
  EXPECT_THAT(error_of(loader, ErrorCode::kCorruptData), HasSubstr("no stand-in"));
}

TEST(Shutdown, AReadErrorIsASampleFailureToo) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_shards(dir, 48, 2));
  testing::FaultPlan plan;
  plan.seed = 3;
  plan.error_share = 0.5;  // Of the reads of 48 samples.
  plan.late_share = 0.2;
  options.backend_factory = faulty(plan);
  Loader strict(options);
  EXPECT_THAT(error_of(strict, ErrorCode::kIo), HasSubstr(".tar: sample"));
  plan.error_share = 0.1;
  plan.short_share = 0.05;
  options.backend_factory = faulty(plan);
  options.on_error = OnError::kReplace;
  const auto run = [&](bool shuffle, std::size_t threads) {
    options.shuffle = shuffle ? Shuffle::kGlobal : Shuffle::kNone;
    options.thread_count = threads;
    Loader loader(options);
    return load_epoch(loader);
  };
  for (const bool shuffle : {false, true}) {
    const auto epoch = run(shuffle, 1);
    EXPECT_THAT(epoch, SizeIs(6));
    EXPECT_EQ(epoch, run(shuffle, 4));
  }
}

/// A data set whose labels throw: a defect, not bad data.
class DefectiveSet final : public formats::Dataset {
 public:
  explicit DefectiveSet(std::shared_ptr<const formats::Dataset> inner) : inner_(std::move(inner)) {}
  std::string_view kind() const noexcept override { return "defective"; }
  std::uint64_t size() const noexcept override { return inner_->size(); }
  formats::Place place(std::uint64_t i) const noexcept override { return inner_->place(i); }
  std::string path(std::uint64_t i) const override { return inner_->path(i); }
  std::string key(std::uint64_t i) const override { return inner_->key(i); }
  Result<std::int64_t> label(std::uint64_t) const override { throw std::logic_error("no labels"); }
  std::string where(std::uint64_t i) const override { return inner_->where(i); }
  const std::vector<std::string>& shards() const noexcept override { return inner_->shards(); }
  const std::vector<std::string>& classes() const noexcept override { return inner_->classes(); }
  const std::vector<std::string>& warnings() const noexcept override { return inner_->warnings(); }
  std::string fingerprint() const override { return inner_->fingerprint(); }
  std::uint64_t max_image_bytes() const noexcept override { return inner_->max_image_bytes(); }
  double mean_image_bytes() const noexcept override { return inner_->mean_image_bytes(); }
  std::string label_source() const override { return inner_->label_source(); }

 private:
  const std::shared_ptr<const formats::Dataset> inner_;
};

TEST(Shutdown, AnExceptionInAStageReachesTheConsumerAndEndsEveryThread) {
  const testing::TempDir dir;
  const std::size_t before = baseline_thread_count();
  {
    LoaderOptions options = small_options(write_folder(dir, 24));
    options.dataset =
        std::make_shared<DefectiveSet>(formats::open_dataset({options.sources.front()}));
    Loader loader(options);
    EXPECT_THROW(loader.next(), std::logic_error);
    EXPECT_TRUE(thread_count_becomes(before));
    EXPECT_THROW(loader.next(), std::logic_error);
  }
  EXPECT_TRUE(thread_count_becomes(before));
}

/// Throws on every picture.
class ThrowingOp final : public ops::Op {
 public:
  std::string_view name() const noexcept override { return "thrower"; }
  ops::ImageSize plan(ops::ImageSize input) const override { return input; }
  void run(const ops::ConstImageView&, const ops::ImageView&, SampleRandom&) const override {
    throw std::runtime_error("out of ideas");
  }
};

TEST(Shutdown, AnExceptionInAnOwnOpIsTheSamplesFailure) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  options.pipeline.steps.emplace_back(std::make_shared<ThrowingOp>());
  Loader loader(options);
  const std::string message = error_of(loader, ErrorCode::kCorruptData);
  EXPECT_THAT(message, HasSubstr("op thrower threw: out of ideas"));
  EXPECT_THAT(message, HasSubstr(".jpg"));
}

TEST(Shutdown, AConsumerThatLeavesEarlyTakesAllThreadsWithIt) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 48);
  const std::size_t before = baseline_thread_count();
  for (int batches = 0; batches < 4; ++batches) {
    for (const char* backend : {"buffered", "uring"}) {
      LoaderOptions options = small_options(folder);
      options.backend = backend;
      Loader loader(options);
      for (int i = 0; i < batches; ++i) ASSERT_TRUE(loader.next());
    }
    EXPECT_TRUE(thread_count_becomes(before));
  }
}

TEST(Shutdown, CancelFromAnotherThreadEndsAWaitingConsumer) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  testing::FaultPlan plan;
  plan.hangs = [](const storage::ReadRequest&) { return true; };
  options.backend_factory = faulty(plan);
  Loader loader(options);
  std::jthread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    loader.cancel();
  });
  error_of(loader, ErrorCode::kCancelled);
  error_of(loader, ErrorCode::kCancelled);
}

TEST(Shutdown, AHungReadTimesOutAndIsNamed) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  options.shuffle = Shuffle::kNone;
  options.timeout_seconds = 0.2;
  testing::FaultPlan plan;
  plan.hangs = [](const storage::ReadRequest& request) {
    return request.path != nullptr && std::string(request.path).ends_with("c0/003.jpg");
  };
  options.backend_factory = faulty(plan);
  Loader loader(options);
  const std::string message = error_of(loader, ErrorCode::kIo);
  EXPECT_THAT(message, HasSubstr("within 0.2 s"));
  EXPECT_THAT(message, HasSubstr("waits for 1 reads"));
  EXPECT_THAT(message, HasSubstr("c0/003.jpg"));
}

TEST(Shutdown, ABatchThatIsTakenMakesRoomForReadsThoughAnotherReadHangs) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  options.shuffle = Shuffle::kNone;
  options.batch_size = 1;
  options.prefetch_factor = 2;
  testing::FaultPlan plan;
  plan.hangs = [](const storage::ReadRequest& request) {
    return request.path != nullptr && std::string(request.path).ends_with("c0/003.jpg");
  };
  options.backend_factory = faulty(plan);
  Loader loader(options);
  ASSERT_TRUE(loader.next());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (loader.stats().reads < 2 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(loader.stats().reads, 2u);  // The first sample, and the third.
}

TEST(Shutdown, SlowStorageIsWaitedFor) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  Loader fast(options);
  const auto expected = load_epoch(fast);
  options.backend_factory = [] {
    return std::make_unique<testing::SlowBackend>(storage::simple_backend(32),
                                                  testing::Latency{1'000'000, 20'000'000, 5});
  };
  Loader slow(options);
  EXPECT_EQ(load_epoch(slow), expected);
  EXPECT_GE(slow.stats().read_latency.quantile_ns(0.5), 1'000'000u);
}

TEST(Shutdown, KeepingMoreBatchesThanTheMemoryLimitIsAnErrorNotADeadlock) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 160));
  std::get<RandomResizedCrop>(options.pipeline.steps.front()).size = {224, 224};
  const Plan plan = Loader(options).plan();
  const std::uint64_t slot = plan.batch_slot_bytes / 5;
  options.memory_limit_bytes = plan.memory_bytes + 3 * slot + slot / 2;
  Loader loader(options);
  std::vector<Batch> kept;
  try {
    while (auto batch = loader.next()) kept.push_back(std::move(*batch));
    FAIL() << "kept all " << kept.size();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("the caller holds"));
    EXPECT_THAT(error.what(), HasSubstr("drop batches or raise memory_limit"));
  }
  EXPECT_GE(kept.size(), 7u);
  EXPECT_LE(kept.size(), 9u);
  kept.clear();
  EXPECT_TRUE(loader.next());  // It goes on where it was.
}

TEST(Shutdown, AForkedChildGetsAnErrorAndEndsWithoutWaiting) {
  const testing::TempDir dir;
  Loader loader(small_options(write_folder(dir, 48)));
  ASSERT_TRUE(loader.next());
  const pid_t child = fork();
  if (child == 0) {
    int code = 1;
    try {
      loader.next();
    } catch (const Error& error) {
      const std::string message = error.what();
      code = message.find("threads do not survive a fork") != std::string::npos ? 0 : 2;
    }
    _exit(code);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(loader.next());  // The parent goes on.
}

TEST(Shutdown, ManyLoadersMadeAndDroppedHalfWayLeaveNothingBehind) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 48);
  const std::size_t before = baseline_thread_count();
  for (int i = 0; i < 50; ++i) {
    Loader loader(small_options(folder));
    ASSERT_TRUE(loader.next());
  }
  EXPECT_TRUE(thread_count_becomes(before));
}

}  // namespace
}  // namespace feedrace::pipeline
