// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "feedrace/cuda/test_fused_pass.h"

namespace feedrace::cuda {
namespace {

/// From 1 to `most`, small ones as often as large ones.
std::uint32_t random_size(SampleRandom& random, double most) {
  return static_cast<std::uint32_t>(std::exp(random.uniform(0, std::log(most + 0.99))));
}

std::uint32_t below(SampleRandom& random, std::uint64_t bound) {
  return static_cast<std::uint32_t>(random.below(bound));
}

Sample random_sample(SampleRandom& random, ImageSize size) {
  const std::uint32_t width = random_size(random, 1000);
  const std::uint32_t height = random_size(random, std::min(1000.0, 200'000.0 / width));
  Sample sample;
  sample.image = below(random, 2) == 0 ? ops::noise(width, height, random.next())
                                       : ops::extremes(width, height, random.next());
  sample.offset_bytes = below(random, 17);
  sample.padding_bytes = below(random, 2) * below(random, 40);
  feedrace_cuda_geometry& g = sample.geometry;
  g.box_width_px = 1 + below(random, width);
  g.box_height_px = 1 + below(random, height);
  g.box_x_px = below(random, width - g.box_width_px + 1);
  g.box_y_px = below(random, height - g.box_height_px + 1);
  const bool is_whole = below(random, 3) > 0;
  g.full_width_px = is_whole ? size.width_px : random_size(random, 600);
  g.full_height_px = is_whole ? size.height_px : random_size(random, 600);
  if (!is_whole) {
    g.window_x_px = static_cast<std::int64_t>(random.uniform(-40, 400));
    g.window_y_px = static_cast<std::int64_t>(random.uniform(-40, 400));
  }
  g.mirror_x = static_cast<std::uint8_t>(below(random, 2));
  g.mirror_y = static_cast<std::uint8_t>(below(random, 4) == 0);
  return sample;
}

TEST_F(FusedPassOnStubs, RandomGeometriesEqualTheReference) {
  for (std::uint64_t i = 0; i < 120; ++i) {
    SampleRandom random(7, 0, i, 0);
    const ImageSize size = {random_size(random, 260), random_size(random, 260)};
    std::vector<Sample> samples;
    for (std::uint64_t n = 1 + random.below(5); n > 0; --n) {
      samples.push_back(random_sample(random, size));
    }
    expect_reference(std::move(samples), size, all_formats()[i % all_formats().size()]);
  }
}

TEST_F(FusedPassOnStubs, LongAxesEqualTheReference) {
  struct Case {
    ImageSize source;
    ImageSize size;
  };
  const Case cases[] = {
      {{1, 1}, {1, 1}},         {{1, 1}, {70, 40}},     {{4000, 9}, {1, 1}},
      {{9, 4000}, {1, 1}},      {{4000, 40}, {224, 8}}, {{40, 4000}, {8, 224}},
      {{4000, 8}, {64, 2}},     {{8, 4000}, {2, 33}},   {{3, 2}, {4000, 5}},
      {{2, 3}, {5, 4000}},      {{1300, 700}, {7, 5}},  {{4000, 5}, {13, 5}},
      {{500, 375}, {224, 224}}, {{640, 480}, {65, 33}}, {{97, 3000}, {63, 47}},
  };
  for (const Case& c : cases) {
    const auto index = static_cast<std::size_t>(&c - cases);
    expect_reference({whole(ops::noise(c.source.width_px, c.source.height_px, 1), c.size),
                      whole(ops::extremes(c.source.width_px, c.source.height_px, 2), c.size)},
                     c.size, all_formats()[index % all_formats().size()]);
  }
}

TEST_F(FusedPassOnStubs, LargePicturesOfAllShapesEqualTheReference) {
  const ImageSize size = {224, 224};
  std::vector<Sample> samples;
  for (const ImageSize source : {ImageSize{4000, 1000}, ImageSize{700, 900}, ImageSize{224, 224}}) {
    samples.push_back(whole(ops::noise(source.width_px, source.height_px, 3), size));
    samples.back().geometry.mirror_x = 1;
  }
  expect_reference(std::move(samples), size, ops::imagenet(DType::kFloat16, Layout::kChw));
}

TEST_F(FusedPassOnStubs, WindowsBeyondThePictureAreBlackThere) {
  const ImageSize size = {70, 50};
  std::vector<Sample> samples;
  for (const std::int64_t at : {-200, -70, -69, -1, 0, 1, 29, 30, 200}) {
    Sample sample = whole(ops::noise(60, 60, 4), size);
    sample.geometry.full_width_px = 30;
    sample.geometry.full_height_px = 40;
    sample.geometry.window_x_px = at;
    sample.geometry.window_y_px = at / 2;
    for (std::uint8_t mirror = 0; mirror < 4; ++mirror) {
      sample.geometry.mirror_x = mirror % 2;
      sample.geometry.mirror_y = mirror / 2;
      samples.push_back(sample);
    }
  }
  for (const ops::TensorFormat& format : all_formats()) expect_reference(samples, size, format);
}

TEST_F(FusedPassOnStubs, AWindowOfAnImmenseResizeIsComputedAlone) {
  Sample sample = whole(ops::noise(3, 3, 5), {8, 8});
  sample.geometry.full_width_px = (std::uint64_t{1} << 52U) - 1;
  sample.geometry.full_height_px = std::uint64_t{1} << 40U;
  sample.geometry.window_x_px = std::int64_t{1} << 51U;
  sample.place();
  const auto got = images_of({sample}, {8, 8}, ops::imagenet(DType::kUint8, Layout::kHwc));
  // So far apart are neighbours that all are the middle of the top row.
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(got[i]), int{sample.image.rgb[3 + i % 3]});
  }
}

TEST_F(FusedPassOnStubs, ReadsNothingOutsideThePictureHoweverItLies) {
  const ImageSize size = {21, 13};
  for (std::size_t offset = 0; offset < 16; ++offset) {
    std::vector<Sample> samples;
    for (const std::uint32_t width : {1U, 5U, 16U, 37U}) {
      samples.push_back(whole(ops::noise(width, 7, offset), size));
      samples.back().offset_bytes = offset;
      samples.back().padding_bytes = offset * 3 % 7;
    }
    expect_reference(std::move(samples), size, ops::imagenet(DType::kUint8, Layout::kChw));
  }
}

TEST_F(FusedPassOnStubs, LevelsBecomeWhatTheReferenceMakesOfThem) {
  ops::TensorFormat format = ops::imagenet(DType::kFloat16, Layout::kChw);
  struct Case {
    std::vector<float> mean;
    std::vector<float> std;
  };
  const Case cases[] = {
      {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}},
      {{0.485F, 0.456F, 0.406F}, {1.0F, 3e4F, 2e7F}},
      {{0.5F, 0.0F, 1.0F}, {-0.3F, 2e-5F, 7e3F}},
      {{0.0F, 0.0F, 0.0F}, {1e9F, 600.0F, 0.5F}},
      // Level 255 lies in the middle of two halves: 2049, 2051 and 4098.
      {{0.0F, 0.0F, 0.0F}, {1 / 2049.0F, 1 / 2051.0F, 1 / 4098.0F}},
  };
  Image ramp(256, 1);
  for (std::size_t i = 0; i < ramp.rgb.size(); ++i) ramp.rgb[i] = static_cast<std::uint8_t>(i / 3);
  for (const Case& c : cases) {
    format.mean = c.mean;
    format.std = c.std;
    for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
      format.dtype = dtype;
      expect_reference({whole(ramp, {256, 1})}, {256, 1}, format);
    }
  }
}

/// While it lives, a block of the host's build is 6 threads.
struct BlocksOfThreads {
  BlocksOfThreads() { setenv("FEEDRACE_STUB_BLOCK_THREADS", "6", 1); }
  ~BlocksOfThreads() { unsetenv("FEEDRACE_STUB_BLOCK_THREADS"); }
};

TEST_F(FusedPassOnStubs, ThreadsOfABlockWaitForEachOther) {
  const BlocksOfThreads threads;
  const ImageSize size = {65, 33};
  std::vector<Sample> samples;
  // One chunk of rows; several; columns from global memory.
  for (const ImageSize source : {ImageSize{100, 80}, ImageSize{90, 900}, ImageSize{5000, 70}}) {
    samples.push_back(whole(ops::noise(source.width_px, source.height_px, 6), size));
  }
  samples.push_back(samples.front());  // Black alone: no rows to wait for, yet a table of levels.
  samples.back().geometry.window_x_px = 500;
  expect_reference(samples, size, ops::imagenet(DType::kFloat32, Layout::kHwc));
}

TEST_F(FusedPassOnStubs, WaitsOnlyOnItsStream) {
  feedrace_stub_set_delay_us(2000);
  const ImageSize size = {32, 32};
  expect_reference({whole(ops::noise(50, 50, 8), size)}, size, all_formats().front());
  EXPECT_EQ(feedrace_stub_calls("cuLaunchKernel"), 2U);
  EXPECT_EQ(feedrace_stub_calls("cuStreamSynchronize"), 0U);
}

TEST_F(FusedPassOnStubs, NoImagesAreNoWork) {
  Call call;
  call.output = output_of({8, 8}, all_formats().front());
  EXPECT_EQ(run(call), FEEDRACE_CUDA_OK);
  EXPECT_EQ(feedrace_stub_calls("cuLaunchKernel"), 0U);
}

}  // namespace
}  // namespace feedrace::cuda
