// SPDX-License-Identifier: Apache-2.0
// Samples that are arrays already.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/pipeline/test_arrays.h"

namespace feedrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kColumns = 5;

/// That a batch holds the numbers of its samples; gives how many samples it has.
std::size_t expect_numbers(const Loader& loader, const Batch& batch, std::size_t columns) {
  const auto size = static_cast<std::int64_t>(batch.size());
  EXPECT_EQ(batch.images.dtype, DType::kFloat32);
  EXPECT_THAT(batch.images.shape, ElementsAre(size, 2, static_cast<std::int64_t>(columns)));
  const auto* images = static_cast<const char*>(batch.images.data);
  const auto* labels = static_cast<const std::int64_t*>(batch.labels.data);
  const std::size_t bytes = 2 * columns * sizeof(float);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const int number = test_number(loader.dataset(), batch.indices[i]);
    EXPECT_EQ(std::string(images + i * bytes, bytes), test_numbers(number, 2 * columns)) << number;
    EXPECT_EQ(labels[i], number % kTestClasses);
  }
  return batch.size();
}

std::size_t expect_epoch(Loader& loader, std::size_t columns) {
  std::size_t samples = 0;
  while (const auto batch = loader.next()) samples += expect_numbers(loader, *batch, columns);
  return samples;
}

std::string refusal(const LoaderOptions& options) {
  try {
    Loader loader(options);
    while (loader.next()) {
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

TEST(RawSamples, ComeAsTheyAreByEveryPath) {
  const testing::TempDir dir;
  for (const std::string& source :
       {write_array_folder(dir, 40, kColumns), write_array_shards(dir, 40, kColumns)}) {
    for (const char* backend : {"buffered", "uring", "direct"}) {
      LoaderOptions options = raw_options(source);
      options.backend = backend;
      options.shuffle = Shuffle::kGlobal;
      options.last_batch = LastBatch::kPartial;
      Loader loader(options);
      EXPECT_EQ(loader.plan().pipeline, "raw .npy float32 [2, 5]");
      EXPECT_EQ(expect_epoch(loader, kColumns), 40U);
      EXPECT_EQ(expect_epoch(loader, kColumns), 40U);
    }
  }
}

TEST(RawSamples, MayBeLargerThanABuffer) {
  const testing::TempDir dir;
  constexpr std::size_t kMany =
      100'003;  // 800 kB, no multiple of a block: above a buffer of a folder.
  for (const std::string& source :
       {write_array_folder(dir, 6, kMany), write_array_shards(dir, 6, kMany)}) {
    LoaderOptions options = raw_options(source);
    options.batch_size = 2;
    Loader loader(options);
    EXPECT_EQ(expect_epoch(loader, kMany), 6U);
  }
}

TEST(RawSamples, MayHaveNoHeader) {
  const testing::TempDir dir;
  for (int i = 0; i < 8; ++i) {
    dir.write(fmt::format("plain/c{}/{}.bin", i % kTestClasses, test_key(i)),
              test_numbers(i, 2 * kColumns));
    dir.write(fmt::format("plain/c{}/{}.npy", i % kTestClasses, test_key(i)), "is not asked for");
  }
  LoaderOptions options = raw_options(dir / "plain");
  options.pipeline.raw = {RawSamples::Form::kPlain, DType::kFloat32,
                          std::vector<std::int64_t>{2, kColumns}};
  Loader loader(options);
  EXPECT_EQ(expect_epoch(loader, kColumns), 8U);
}

TEST(RawSamples, LieInAFieldOfAnyName) {
  const testing::TempDir dir;
  std::string tar;
  for (int i = 0; i < 8; ++i) {
    tar += testing::tar_member(test_key(i) + ".embedding", test_array(i, kColumns));
    tar += testing::tar_member(test_key(i) + ".cls", std::to_string(i % kTestClasses));
  }
  dir.write("0.tar", tar + testing::tar_end());
  LoaderOptions options = raw_options(dir.path());
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("image field (npy)"), HasSubstr("embedding")));
  options.format.image_fields = {"embedding"};
  Loader loader(options);
  EXPECT_EQ(expect_epoch(loader, kColumns), 8U);
}

TEST(RawSamples, BringTheirFieldsAlong) {
  const testing::TempDir dir;
  LoaderOptions options = raw_options(write_array_shards(dir, 16, kColumns));
  options.fields = {"txt"};
  Loader loader(options);
  while (const auto batch = loader.next()) {
    expect_numbers(loader, *batch, kColumns);
    for (std::size_t i = 0; i < batch->size(); ++i) {
      EXPECT_EQ(batch->fields[0].values[i],
                "caption of " + loader.dataset().key(batch->indices[i]));
    }
  }
}

TEST(RawSamples, ThatAreNotAsTheFirstAreBadOnes) {
  const testing::TempDir dir;
  LoaderOptions options = raw_options(write_array_folder(dir, 24, kColumns));
  const std::string whole = test_array(4, kColumns);
  const auto with = [&](const std::string& content) {
    dir.write("arrays/c1/004.npy", content);
    return refusal(options);
  };
  EXPECT_EQ(with(whole), "taken");
  EXPECT_THAT(
      with(testing::npy("<f2", "2, 5", std::string(20, 'x'))),
      AllOf(HasSubstr("c1/004.npy: it is float16 [2, 5]"), HasSubstr("must be float32 [2, 5]")));
  EXPECT_THAT(with(test_array(4, 6)), HasSubstr("it is float32 [2, 6]"));
  EXPECT_THAT(with(whole.substr(0, whole.size() - 1)), HasSubstr("holds 39, cut short"));
  EXPECT_THAT(with(whole + "x"), HasSubstr("holds 41, with others behind them"));
  EXPECT_THAT(with(whole.substr(0, 30)), HasSubstr(".npy header: "));
  EXPECT_THAT(with(test_jpeg(4)), HasSubstr("no .npy array"));
  EXPECT_THAT(with(""), HasSubstr("004.npy"));
  options.on_error = OnError::kZero;
  Loader zeroing(options);
  while (const auto batch = zeroing.next()) {
    for (std::size_t i = 0; i < batch->size(); ++i) {
      if (batch->flags[i] != SampleFlag::kBlank) continue;
      const auto* numbers = static_cast<const float*>(batch->images.data) + i * 2 * kColumns;
      EXPECT_THAT(std::vector<float>(numbers, numbers + 2 * kColumns), Each(0));
    }
  }
  EXPECT_EQ(zeroing.stats().blanked_samples, 1U);
  options.on_error = OnError::kReplace;
  Loader replacing(options);
  EXPECT_EQ(expect_epoch(replacing, kColumns), 24U);
  EXPECT_EQ(replacing.stats().substituted_samples, 1U);
}

TEST(RawSamples, AreLearntFromTheFirstThatIsAskedFor) {
  const testing::TempDir dir;
  LoaderOptions options = raw_options(write_array_folder(dir, 12, kColumns));
  dir.write("arrays/c0/000.npy", "damaged");
  EXPECT_THAT(refusal(options),
              AllOf(HasSubstr("c0/000.npy: it is no .npy array"), HasSubstr("are learnt from")));
  options.subset.indices = {1, 2, 3};
  Loader subset(options);
  EXPECT_EQ(expect_epoch(subset, kColumns), 3U);
  options.subset = {};
  options.pipeline.raw->dtype = DType::kFloat32;
  options.pipeline.raw->shape = std::vector<std::int64_t>{2, kColumns};
  options.on_error = OnError::kReplace;
  Loader given(options);
  EXPECT_EQ(expect_epoch(given, kColumns), 12U);
  EXPECT_EQ(given.stats().substituted_samples, 1U);
}

TEST(RawSamples, GoOnFromAState) {
  const testing::TempDir dir;
  LoaderOptions options = raw_options(write_array_shards(dir, 32, kColumns));
  options.shuffle = Shuffle::kGlobal;
  Loader first(options);
  const std::vector<Seen> expected = load_epoch(first);
  Loader stopped(options);
  EXPECT_EQ(remember(*stopped.next()), expected[0]);
  Loader resumed(options);
  resumed.load_state(stopped.state());
  EXPECT_EQ(remember(*resumed.next()), expected[1]);
}

TEST(RawSamples, AreTracedAsWhatTheyAre) {
  const testing::TempDir dir;
  Loader loader(raw_options(write_array_shards(dir, 8, kColumns)));
  EXPECT_EQ(nlohmann::json::parse(loader.trace_sample(3, 0)),
            nlohmann::json::parse(R"([{"op": "raw", "shape": [2, 5], "dtype": "float32"}])"));
}

TEST(RawSamples, OfASharedCacheAreRead) {
  const testing::TempDir dir;
  LoaderOptions options = raw_options(write_array_shards(dir, 16, kColumns));
  options.shared_cache.emplace();
  options.shared_cache->limit_bytes = 1 << 20;
  options.shared_cache->folder = dir.path();
  Loader loader(options);
  EXPECT_EQ(expect_epoch(loader, kColumns), 16U);
  EXPECT_EQ(expect_epoch(loader, kColumns), 16U);
  EXPECT_GT(loader.stats().shared_cache->hits, 0U);
}

}  // namespace
}  // namespace feedrace::pipeline
