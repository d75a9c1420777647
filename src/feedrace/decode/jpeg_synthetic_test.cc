// SPDX-License-Identifier: Apache-2.0
// Sound JPEGs of all kinds, by our decoder and by libjpeg-turbo: not one pixel differs. `make
// jpeg-check` runs this with many more pictures, and over a folder of photographs.

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "feedrace/decode/test_jpeg_engines.h"
#include "feedrace/jpeg/test_jpegs.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::decode {
namespace {

using testing::JpegEngines;
using Bytes = std::span<const std::byte>;

/// Ends within `count` pixels as often as anywhere else.
std::array<std::uint32_t, 2> random_span(SampleRandom& random, std::uint32_t count) {
  const auto first = static_cast<std::uint32_t>(random.below(count));
  return {first, static_cast<std::uint32_t>(1 + random.below(count - first))};
}

/// What is wrong with the whole picture or one of `region_count` regions; empty: nothing.
std::string fault(JpegEngines& engines, Bytes encoded, int region_count, SampleRandom& random) {
  if (std::string whole = engines.whole_fault(encoded); !whole.empty()) return "whole: " + whole;
  const ImageInfo* info = engines.open(encoded);
  if (info == nullptr) return "libjpeg-turbo refuses it";
  for (int i = 0; i < region_count; ++i) {
    const auto [x, width] = random_span(random, info->width_px);
    const auto [y, height] = random_span(random, info->height_px);
    const Region region{x, y, width, height};
    const auto step_rows = static_cast<std::uint32_t>(1 + random.below(height));
    if (std::string part = engines.cut_fault(encoded, region, step_rows); !part.empty()) {
      return fmt::format("region {},{} {}x{}: {}", x, y, width, height, part);
    }
  }
  return "";
}

std::size_t number_of(const char* variable, std::size_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
}

TEST(JpegSynthetic, PicturesOfAllKindsHaveLibjpegTurbosPixels) {
  const std::size_t count = number_of("FEEDRACE_JPEG_CHECK_COUNT", 2000);
  JpegEngines engines;
  for (std::size_t i = 0; i < count; ++i) {
    SampleRandom random(1, 0, i, 0);  // Of each its own, so that one is found again.
    const jpeg::testing::JpegKind kind = jpeg::testing::random_kind(random);
    const std::vector<std::byte> encoded = jpeg::testing::make_jpeg(kind);
    ASSERT_EQ(fault(engines, encoded, 4, random), "") << "picture " << i << ": " << kind.text();
  }
  EXPECT_EQ(engines.outcomes().pixels, count);
  EXPECT_EQ(engines.outcomes().more_complaints, 0U);
  EXPECT_GT(engines.outcomes().by_ours, count * 7 / 10);
  std::printf("%zu pictures, %zu of them by ours, 4 regions each: no difference\n", count,
              engines.outcomes().by_ours);
}

/// Every JPEG of a folder in full and in 200 regions.
TEST(JpegSynthetic, PhotographsHaveLibjpegTurbosPixels) {
  const char* folder = std::getenv("FEEDRACE_JPEG_CHECK_FOLDER");
  if (folder == nullptr || *folder == '\0') GTEST_SKIP() << "make jpeg-check DATA=folder";
  JpegEngines engines;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string content = feedrace::testing::read_file(entry.path());
    const Bytes encoded = std::as_bytes(std::span(content));
    if (!engines.ours().accepts(encoded)) continue;
    SampleRandom random(1, 0, count++, 0);
    ASSERT_EQ(fault(engines, encoded, 200, random), "") << entry.path();
  }
  ASSERT_GT(count, 0U) << folder << ": no JPEGs in it";
  std::printf("%zu photographs, %zu of them by ours, 200 regions each: no difference\n", count,
              engines.outcomes().by_ours);
}

}  // namespace
}  // namespace feedrace::decode
