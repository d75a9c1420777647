// SPDX-License-Identifier: Apache-2.0
// Fields besides the image, pictures of different sizes, and a consumer that rests.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/pipeline/test_sets.h"
#include "feedrace/storage/backends.h"
#include "feedrace/testing/slow_backend.h"

namespace feedrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Shards of which the members lie in the order caption, picture, label; every fifth sample has no
/// caption.
std::string write_captioned(const testing::TempDir& dir, int count) {
  std::string tar;
  for (int i = 0; i < count; ++i) {
    const std::string key = test_key(i);
    if (i % 5 != 4) tar += testing::tar_member(key + ".txt", "caption of " + key);
    tar += testing::tar_member(key + ".jpg", test_jpeg(i));
    tar += testing::tar_member(key + ".cls", std::to_string(i % kTestClasses));
  }
  dir.write("captioned/0.tar", tar + testing::tar_end());
  return dir / "captioned";
}

TEST(Fields, ComeAlongWithEachSample) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_captioned(dir, 40));
  Loader without(options);
  const std::vector<Seen> expected = load_epoch(without);
  options.fields = {"txt?", "cls"};
  for (const char* backend : {"buffered", "uring", "direct"}) {
    options.backend = backend;
    Loader loader(options);
    std::vector<Seen> seen;
    while (const auto batch = loader.next()) {
      seen.push_back(remember(*batch));
      ASSERT_THAT(batch->fields, SizeIs(2));
      EXPECT_EQ(batch->fields[0].name, "txt");
      for (std::size_t i = 0; i < batch->size(); ++i) {
        const std::string key = loader.dataset().key(batch->indices[i]);
        const auto& caption = batch->fields[0].values[i];
        EXPECT_EQ(caption.has_value(), std::stoi(key) % 5 != 4) << key;
        if (caption) {
          EXPECT_EQ(*caption, "caption of " + key);
        }
        EXPECT_EQ(batch->fields[1].values[i], std::to_string(seen.back().labels[i]));
      }
    }
    EXPECT_EQ(seen, expected) << backend;
  }
}

TEST(Fields, ThatASampleLacksMakeItABadOne) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_captioned(dir, 40));
  options.shuffle = Shuffle::kNone;
  options.fields = {"txt"};
  Loader loader(options);
  try {
    loader.next();
    FAIL() << "a sample without the field was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("004"), HasSubstr("no field txt"), HasSubstr("txt?")));
  }
  options.on_error = OnError::kReplace;
  Loader replacing(options);
  while (const auto batch = replacing.next()) {
    for (std::size_t i = 0; i < batch->size(); ++i) {
      EXPECT_EQ(batch->fields[0].values[i],
                "caption of " + replacing.dataset().key(batch->indices[i]));
    }
  }
  EXPECT_EQ(replacing.stats().substituted_samples, 8U);
}

TEST(Fields, ThatNoSampleHasAreRefusedWithThoseThatThereAre) {
  const testing::TempDir dir;
  const auto refusal = [](LoaderOptions options, const char* field) -> std::string {
    options.fields = {field};
    try {
      const Loader loader(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_THAT(refusal(small_options(write_captioned(dir, 8)), "json"),
              AllOf(HasSubstr("\"json\": no sample has it"), HasSubstr("txt, jpg, cls")));
  EXPECT_THAT(refusal(small_options(write_folder(dir, 8)), "json"),
              HasSubstr("images and labels only"));
  EXPECT_THAT(refusal(small_options(dir / "captioned"), "?"), HasSubstr("without a name"));
}

TEST(Fields, OfASharedCacheAreNotThoseOfAnother) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_captioned(dir, 16));
  options.shared_cache.emplace();
  options.shared_cache->limit_bytes = 1 << 20;
  options.shared_cache->folder = dir.path();
  Loader plain(options);
  const std::vector<Seen> expected = load_epoch(plain);
  options.fields = {"cls"};
  Loader with(options);
  EXPECT_EQ(load_epoch(with), expected);
  EXPECT_EQ(load_epoch(plain).size(), expected.size());
}

Pipeline ragged_pipeline() {
  Pipeline pipeline;
  pipeline.steps = {Resize{Resize::By::kShorterSide, {}, 24, 0}};
  pipeline.dtype = DType::kUint8;
  return pipeline;
}

TEST(Ragged, PicturesComeEachInItsOwnSize) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  options.pipeline = ragged_pipeline();
  Loader loader(options);
  EXPECT_THAT(loader.plan().warnings, ::testing::Contains(HasSubstr("differ in size")));
  std::set<std::vector<std::int64_t>> shapes;
  int count = 0;
  std::vector<Batch> kept;
  while (auto batch = loader.next()) {
    ASSERT_EQ(batch->image_list.size(), batch->size());
    EXPECT_EQ(batch->images.size_bytes(), 0U);
    for (const Tensor& image : batch->image_list) {
      shapes.insert(image.shape);
      EXPECT_EQ(std::min(image.shape[1], image.shape[2]), 24);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image.data) % 64, 0U);
      ++count;
    }
    kept.push_back(std::move(*batch));
  }
  EXPECT_EQ(count, 24);
  EXPECT_GT(shapes.size(), 3U);
}

TEST(Ragged, BadSamplesBecomeOneBlackPixel) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 16));
  dir.write("folder/c0/000.jpg", "no picture");
  options.pipeline = ragged_pipeline();
  options.on_error = OnError::kZero;
  Loader loader(options);
  const auto batch = loader.next();
  ASSERT_EQ(batch->flags[0], SampleFlag::kBlank);
  EXPECT_THAT(batch->image_list[0].shape, ::testing::ElementsAre(3, 1, 1));
  EXPECT_EQ(static_cast<const char*>(batch->image_list[0].data)[0], 0);
}

TEST(Ragged, PicturesKeepToTheMemoryLimit) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 64));
  options.pipeline.steps = {Resize{Resize::By::kShorterSide, {}, 2000, 0}};
  options.batch_size = 32;
  Loader planned(options);
  options.memory_limit_bytes = planned.plan().memory_bytes + (100 << 20);
  Loader loader(options);
  try {
    while (loader.next()) continue;
    FAIL() << "several GB went into 100 MiB";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("different sizes need more than"), HasSubstr("memory_limit")));
  }
}

TEST(Pause, GoesOnBehindTheLastBatch) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 60));
  Loader unbroken(options);
  std::vector<Seen> expected = load_epoch(unbroken);
  for (const Seen& batch : load_epoch(unbroken)) expected.push_back(batch);
  Loader loader(options);
  std::vector<Seen> seen;
  for (std::size_t i = 0; seen.size() < expected.size(); ++i) {
    if (i % 2 == 0) loader.pause();
    const std::string state = loader.state();
    loader.pause();
    EXPECT_EQ(loader.state(), state);
    if (const auto batch = loader.next()) seen.push_back(remember(*batch));
  }
  EXPECT_EQ(seen, expected);
}

std::size_t thread_count() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    ++count;
  }
  return count;
}

/// The kernel lists a thread that was joined a moment longer.
std::size_t thread_count_down_to(std::size_t wanted) {
  for (int i = 0; i < 10'000 && thread_count() > wanted; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return thread_count();
}

TEST(Pause, EndsAllThreads) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 60);
  Loader(small_options(folder)).next();  // A sanitizer starts its own thread with the first one.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::size_t before = thread_count();
  Loader loader(small_options(folder));
  const auto kept = loader.next();
  EXPECT_GT(thread_count(), before);
  loader.pause();
  EXPECT_EQ(thread_count_down_to(before), before);
  EXPECT_EQ(kept->size(), 8U);
}

TEST(WhileWaiting, WhatItThrowsLeavesNextAndTheLoaderGoesOn) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 16));
  Loader unbroken(options);
  const std::vector<Seen> expected = load_epoch(unbroken);
  options.backend_factory = [] {
    return std::make_unique<testing::SlowBackend>(storage::simple_backend(8),
                                                  testing::Latency{100'000'000, 100'000'000, 1});
  };
  int calls = 0;
  options.while_waiting = [&] {
    if (++calls == 1) throw std::runtime_error("interrupted");
  };
  Loader loader(options);
  EXPECT_THROW(loader.next(), std::runtime_error);
  EXPECT_EQ(load_epoch(loader), expected);
  EXPECT_GT(calls, 1);
}

TEST(Trace, SaysWhatIsDoneToASampleOfTheSet) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_captioned(dir, 8));
  options.fields = {"cls"};
  const Loader loader(options);
  const auto trace = nlohmann::json::parse(loader.trace_sample(3, 0));
  ASSERT_EQ(trace.size(), 3U);
  EXPECT_EQ(trace[0]["op"], "decode");
  EXPECT_EQ(trace[0]["size"], nlohmann::json({48 + 3 * 8, 40 + 3 * 9}));
  EXPECT_NE(trace[1]["box"], nlohmann::json::parse(loader.trace_sample(3, 1))[1]["box"]);
  EXPECT_THROW(loader.trace_sample(8, 0), Error);
}

}  // namespace
}  // namespace feedrace::pipeline
