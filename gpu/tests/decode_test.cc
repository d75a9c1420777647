// SPDX-License-Identifier: Apache-2.0
// nvJPEG on a GPU against libjpeg-turbo.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/cuda/test_jpegs.h"
#include "feedrace/testing/images.h"

#include "gpu/places.h"

namespace feedrace::gpu {
namespace {

using cuda::Batch;
using cuda::Bytes;
using cuda::Decoder;
using cuda::JpegOptions;

// Both round an inverse cosine transform and a change of colours, each in its own way.
constexpr int kSameChromaLevels = 2;
// Between samples of chroma nvJPEG puts other values than libjpeg-turbo's triangle filter does: at
// an edge of colours one pixel may be far off, a picture on average hardly.
constexpr double kUpsampledMeanLevels = 2;

struct Difference {
  int largest = 0;
  double mean = 0;
};

Difference between(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  if (a.size() != b.size()) return {256, 256};
  Difference difference;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int apart = std::abs(int{a[i]} - int{b[i]});
    difference.largest = std::max(difference.largest, apart);
    sum += apart;
  }
  difference.mean = sum / static_cast<double>(a.size());
  return difference;
}

/// Smooth colours with some detail, as photographs have.
decode::testing::Pixels smooth(std::uint32_t width_px, std::uint32_t height_px,
                               std::uint32_t channel_count = 3) {
  decode::testing::Pixels pixels{width_px, height_px, channel_count, {}};
  for (std::uint32_t y = 0; y < height_px; ++y) {
    for (std::uint32_t x = 0; x < width_px; ++x) {
      for (std::uint32_t c = 0; c < channel_count; ++c) {
        const std::uint32_t slope = (x * (c + 1) + y * (3 - c)) % 510;
        pixels.values.push_back(static_cast<std::uint8_t>(slope < 255 ? slope : 510 - slope));
      }
    }
  }
  return pixels;
}

Bytes smooth_jpeg(bool has_full_chroma, bool is_grey = false) {
  JpegOptions options;
  if (has_full_chroma || is_grey) options.luma_sampling = {1, 1};
  if (is_grey) options.stored_as = JCS_GRAYSCALE;
  return cuda::make_jpeg(smooth(301, 203, is_grey ? 1 : 3), options);
}

class GpuDecode : public ::testing::Test {
 protected:
  void decode(Batch& batch, double share) {
    Decoder decoder(device_, {share, 0, 64, 512, 512});
    ASSERT_EQ(decoder.status, FEEDRACE_CUDA_OK) << decoder.error.message;
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK) << decoder.error.message;
    batch.wait();
  }
  Difference difference(Batch& batch, std::size_t i) {
    return between(batch.read(i), batch.expected[i].rgb);
  }

  const std::shared_ptr<cuda::Device> device_ = open_device();
};

TEST_F(GpuDecode, FullChromaAndGreyAreWithinTwoLevels) {
  int largest = 0;
  double mean = 0;
  for (const double share : {0.0, 0.65, 1.0}) {
    Batch batch(device_, {smooth_jpeg(true), smooth_jpeg(true, true),
                          cuda::make_jpeg(cuda::make_pixels(200, 120), {90, {1, 1}}),
                          cuda::make_jpeg(cuda::make_pixels(33, 31), {90, {1, 1}})});
    decode(batch, share);
    for (std::size_t i = 0; i < batch.jpegs.size(); ++i) {
      ASSERT_EQ(batch.jpegs[i].status, FEEDRACE_CUDA_OK) << "picture " << i << ", share " << share;
      const Difference here = difference(batch, i);
      EXPECT_LE(here.largest, kSameChromaLevels) << "picture " << i << ", share " << share;
      largest = std::max(largest, here.largest);
      mean = std::max(mean, here.mean);
    }
  }
  RecordProperty("largest_difference_levels", std::to_string(largest));
  RecordProperty("mean_difference_levels", std::to_string(mean));
}

TEST_F(GpuDecode, UpsampledChromaIsNearOnAverage) {
  int largest = 0;
  double mean = 0;
  for (const double share : {0.0, 0.65, 1.0}) {
    std::vector<Bytes> pictures;
    for (std::uint32_t i = 0; i < 24; ++i) {
      const std::string jpeg = testing::make_jpeg(160 + i, 120 + 3 * i, i);
      const auto* begin = reinterpret_cast<const std::byte*>(jpeg.data());
      pictures.emplace_back(begin, begin + jpeg.size());
    }
    pictures.push_back(smooth_jpeg(false));
    Batch batch(device_, pictures);
    decode(batch, share);
    for (std::size_t i = 0; i < batch.jpegs.size(); ++i) {
      ASSERT_EQ(batch.jpegs[i].status, FEEDRACE_CUDA_OK) << "picture " << i << ", share " << share;
      const Difference here = difference(batch, i);
      EXPECT_LE(here.mean, kUpsampledMeanLevels) << "picture " << i << ", share " << share;
      largest = std::max(largest, here.largest);
      mean = std::max(mean, here.mean);
    }
  }
  RecordProperty("largest_difference_levels", std::to_string(largest));
  RecordProperty("mean_difference_levels", std::to_string(mean));
}

TEST_F(GpuDecode, EveryKindIsDecodedOrRefusedAndNeverTouchesAnother) {
  for (const double share : {0.0, 0.65, 1.0}) {
    Batch batch(device_, cuda::all_kinds());
    decode(batch, share);
    int decoded = 0;
    for (const feedrace_cuda_jpeg& jpeg : batch.jpegs) {
      const bool is_good = jpeg.status == FEEDRACE_CUDA_OK;
      EXPECT_EQ(is_good, jpeg.engine != FEEDRACE_CUDA_ENGINE_NONE);
      EXPECT_TRUE(is_good || jpeg.status == FEEDRACE_CUDA_UNSUPPORTED ||
                  jpeg.status == FEEDRACE_CUDA_BAD_DATA)
          << jpeg.status;
      decoded += is_good ? 1 : 0;
    }
    EXPECT_GE(decoded, 5) << "share "
                          << share;  // Baseline, progressive, 4:4:4, grey and tiny ones.
    EXPECT_LE(difference(batch, 3).largest, kSameChromaLevels);
    RecordProperty("decoded_kinds_of_8", decoded);
  }
}

TEST_F(GpuDecode, ABadPictureIsSaidSoAndTheOthersAreWhole) {
  for (const double share : {0.0, 1.0}) {
    Batch batch(device_, {smooth_jpeg(true), smooth_jpeg(true)});
    Bytes no_picture(500, std::byte{7});
    batch.add_bad(no_picture);
    decode(batch, share);
    EXPECT_EQ(batch.jpegs[2].engine, FEEDRACE_CUDA_ENGINE_NONE);
    EXPECT_NE(batch.jpegs[2].status, FEEDRACE_CUDA_OK);
    for (const std::size_t i : {0U, 1U}) {
      ASSERT_EQ(batch.jpegs[i].status, FEEDRACE_CUDA_OK);
      EXPECT_LE(difference(batch, i).largest, kSameChromaLevels);
    }
  }
}

TEST_F(GpuDecode, ARegionIsThatPartOfThePicture) {
  Batch batch(device_, {smooth_jpeg(true)});
  batch.want(0, {48, 32, 120, 90});
  decode(batch, 0);
  ASSERT_EQ(batch.jpegs[0].status, FEEDRACE_CUDA_OK);
  EXPECT_LE(difference(batch, 0).largest, kSameChromaLevels);
}

/// The hardware of some GPUs does not wait for what the caller's stream still does with the memory:
/// the decoder has to, whoever reads the last batch.
TEST_F(GpuDecode, BatchAfterBatchIntoTheSameMemoryIsWhole) {
  Decoder decoder(device_, {1.0, 0, 64, 512, 512});
  ASSERT_EQ(decoder.status, FEEDRACE_CUDA_OK) << decoder.error.message;
  Batch batch(device_, std::vector<Bytes>(32, smooth_jpeg(true)));
  for (int round = 0; round < 25; ++round) {
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK) << decoder.error.message;
    const auto i = static_cast<std::size_t>(round);
    ASSERT_EQ(batch.jpegs[i].status, FEEDRACE_CUDA_OK);
    ASSERT_LE(difference(batch, i).largest, kSameChromaLevels) << "round " << round;
  }
}

}  // namespace
}  // namespace feedrace::gpu
