// SPDX-License-Identifier: Apache-2.0
#include "feedrace/transform/raw_sample.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/decode/npy_header.h"
#include "feedrace/testing/npy.h"
#include "feedrace/transform/sample_worker.h"

namespace feedrace::transform {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string refusal(const RawSamples& samples, const std::string& bytes) {
  const auto values = find_raw_values(samples, bytes_of(bytes), bytes.size());
  if (values) return "taken";
  EXPECT_EQ(values.error().code, ErrorCode::kCorruptData);
  return values.error().message;
}

TEST(RawSample, GivesWhatTheSampleSays) {
  const std::string bytes = testing::npy("<f2", "2, 3", std::string(12, 'x'));
  const auto values = find_raw_values({}, bytes_of(bytes), bytes.size());
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(values->samples.dtype, DType::kFloat16);
  EXPECT_THAT(*values->samples.shape, ElementsAre(2, 3));
  EXPECT_EQ(values->at_bytes + 12, bytes.size());
  EXPECT_EQ(values->size_bytes, 12U);
  EXPECT_EQ(raw_bytes(values->samples), 12U);
}

TEST(RawSample, NeedsNoMoreThanTheFrontOfIt) {
  std::string bytes = testing::npy("|u1", "100000,", std::string(100'000, 'x'));
  const std::size_t size = bytes.size();
  bytes.resize(decode::kMaxNpyHeaderBytes);
  const auto values = find_raw_values({}, bytes_of(bytes), size);
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(values->size_bytes, 100'000U);
}

TEST(RawSample, OfAnotherTypeOrShapeNamesBoth) {
  const std::string bytes = testing::npy("<f4", "3,", std::string(12, 'x'));
  const RawSamples::Form npy = RawSamples::Form::kNpy;
  EXPECT_THAT(refusal({npy, DType::kFloat16, std::vector<std::int64_t>{3}}, bytes),
              AllOf(HasSubstr("it is float32 [3]"), HasSubstr("must be float16 [3]")));
  EXPECT_THAT(refusal({npy, std::nullopt, std::vector<std::int64_t>{3, 1}}, bytes),
              AllOf(HasSubstr("it is float32 [3]"), HasSubstr("must be float32 [3, 1]")));
}

TEST(RawSample, OfAnotherLengthSaysBoth) {
  EXPECT_THAT(refusal({}, testing::npy("<f4", "3,", std::string(11, 'x'))),
              HasSubstr("float32 [3] has 12 bytes, and the sample holds 11, cut short"));
  EXPECT_THAT(refusal({}, testing::npy("<f4", "3,", std::string(13, 'x'))),
              HasSubstr("12 bytes, and the sample holds 13, with others behind them"));
  EXPECT_THAT(refusal({}, testing::npy("<f4", "3, 0", "")), HasSubstr("without any number"));
  EXPECT_THAT(refusal({}, testing::npy("<f4", "4294967296, 4294967296", "")),
              HasSubstr("more than memory can hold"));
  EXPECT_THAT(refusal({}, testing::npy("<f4", "9223372036854775807, 2, 2", "xxxx")),
              HasSubstr("more than memory can hold"));
}

TEST(RawSample, WithoutAHeaderIsAsLongAsItsShape) {
  const RawSamples plain{RawSamples::Form::kPlain, DType::kInt64, std::vector<std::int64_t>{2}};
  const auto values = find_raw_values(plain, bytes_of(std::string(16, 'x')), 16);
  ASSERT_TRUE(values);
  EXPECT_EQ(values->at_bytes, 0U);
  EXPECT_EQ(values->size_bytes, 16U);
  EXPECT_THAT(refusal(plain, std::string(15, 'x')), HasSubstr("holds 15, cut short"));
  EXPECT_THAT(refusal(plain, ""), HasSubstr("holds 0, cut short"));
  EXPECT_THAT(refusal(plain, std::string(24, 'x')), HasSubstr("holds 24"));
}

TEST(RawSample, ThatCanNotBeIsRefusedBeforeAnyThreadStarts) {
  const auto refusal_of = [](const RawSamples& samples) -> std::string {
    Pipeline pipeline = Pipeline::recipe("raw");
    pipeline.raw = samples;
    try {
      pipeline.check();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "taken";
  };
  using Shape = std::vector<std::int64_t>;
  const auto plain = RawSamples::Form::kPlain;
  const auto npy = RawSamples::Form::kNpy;
  EXPECT_THAT(refusal_of({plain, DType::kUint8, {}}), HasSubstr("both dtype and shape"));
  EXPECT_THAT(refusal_of({plain, {}, Shape{3}}), HasSubstr("both dtype and shape"));
  EXPECT_THAT(refusal_of({npy, {}, Shape{3, 0}}), HasSubstr("shape is [3, 0]"));
  EXPECT_THAT(refusal_of({npy, {}, Shape{-1}}), HasSubstr("at least 1"));
  EXPECT_THAT(refusal_of({npy, {}, Shape(65, 1)}), HasSubstr("65 extents"));
  EXPECT_THAT(refusal_of({npy, DType::kFloat32, Shape{1 << 28, 2}}), HasSubstr("may have"));
  EXPECT_EQ(refusal_of({npy, DType::kFloat32, Shape{1 << 28}}), "taken");
  EXPECT_EQ(refusal_of({npy, DType::kFloat32, Shape{}}), "taken");
}

TEST(RawSample, GoesWithNothingThatIsOfPictures) {
  const auto refusal_with = [](void (*change)(Pipeline&)) -> std::string {
    Pipeline pipeline = Pipeline::recipe("raw");
    change(pipeline);
    try {
      pipeline.check();
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_THAT(refusal_with([](Pipeline& pipeline) { pipeline.steps = {Flip{}}; }),
              HasSubstr("raw samples and has something to do with pictures"));
  EXPECT_THAT(refusal_with([](Pipeline& pipeline) { pipeline.mean = {0, 0, 0}; }),
              HasSubstr("leave out raw, or steps"));
  EXPECT_THAT(
      refusal_with([](Pipeline& pipeline) { pipeline.orientation = Orientation::kUpright; }),
      HasSubstr("orientation"));
  EXPECT_THAT(refusal_with([](Pipeline& pipeline) { pipeline.reads_only = true; }),
              HasSubstr("both given"));
}

TEST(RawSample, IsDescribed) {
  Pipeline pipeline = Pipeline::recipe("raw");
  EXPECT_EQ(pipeline.describe(), "raw .npy, as the first sample is");
  pipeline.raw->dtype = DType::kFloat32;
  EXPECT_EQ(pipeline.describe(), "raw .npy float32, else as the first sample is");
  pipeline.raw->shape = std::vector<std::int64_t>{3, 4};
  EXPECT_EQ(pipeline.describe(), "raw .npy float32 [3, 4]");
  pipeline.raw->form = RawSamples::Form::kPlain;
  EXPECT_EQ(pipeline.describe(), "raw float32 [3, 4]");
}

TEST(RawSample, IsCopiedToItsPlaceAsItIs) {
  Pipeline pipeline = Pipeline::recipe("raw");
  pipeline.raw->dtype = DType::kFloat32;
  pipeline.raw->shape = std::vector<std::int64_t>{3};
  SampleWorker worker(pipeline, 0, {});
  std::string place = "................";
  const auto put = [&](ops::ImageSize) -> void* { return place.data() + 2; };
  ASSERT_TRUE(worker.run(bytes_of(testing::npy("<f4", "3,", "abcdefghijkl")), 0, 0, put));
  EXPECT_EQ(place, "..abcdefghijkl..");
  const auto done = worker.run(bytes_of(testing::npy("<f4", "2,", "ABCDEFGH")), 0, 0, put);
  EXPECT_FALSE(done);
  EXPECT_EQ(place, "..abcdefghijkl..");
}

}  // namespace
}  // namespace feedrace::transform
