// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/random_erasing.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>

#include "feedrace/error.h"
#include "feedrace/ops/half.h"
#include "feedrace/ops/op_cases.h"

namespace feedrace::ops {
namespace {

using testing::HasSubstr;

constexpr ImageSize kSize = {7, 5};
constexpr ErasingValues kDrawn = {{2, 1, 3, 2}, {11, 12}};  // x 2 to 4, y 1 to 2.

void expect_quantiles(std::vector<double> values, const nlohmann::json& wanted, const char* name) {
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < wanted["quantiles_at"].size(); ++i) {
    const double at = wanted["quantiles_at"][i];
    const double value = values[static_cast<std::size_t>(at * static_cast<double>(values.size()))];
    EXPECT_NEAR(value, wanted[name][i].get<double>(), 0.02)
        << name << " at " << at << ", " << wanted;
  }
}

TEST(RandomErasing, BoxesLieAsTorchvisionDrawsThem) {
  const auto cases = read_cases("torchvision_geometry.json", "erasing");
  ASSERT_EQ(cases.size(), 3U);
  for (const nlohmann::json& wanted : cases) {
    const ImageSize picture = size_in(wanted["picture"]);
    Erasing erasing;
    erasing.probability = 1;
    erasing.scale = wanted["scale"].get<std::array<double, 2>>();
    erasing.ratio = wanted["ratio"].get<std::array<double, 2>>();
    std::vector<double> areas, ratios, centres_x, centres_y;
    constexpr std::uint64_t kDraws = 40'000;
    for (std::uint64_t sample = 0; sample < kDraws; ++sample) {
      SampleRandom random(1, 0, sample, 4);
      const auto drawn = draw_random_erasing(picture, erasing, random);
      if (!drawn) continue;
      const CropBox& box = drawn->box;
      ASSERT_LE(box.x_px + box.width_px, picture.width_px);
      ASSERT_LE(box.y_px + box.height_px, picture.height_px);
      const double width = box.width_px;
      const double height = box.height_px;
      areas.push_back(width * height / (static_cast<double>(picture.width_px) * picture.height_px));
      ratios.push_back(std::log(height / width));
      centres_x.push_back((box.x_px + width / 2) / picture.width_px);
      centres_y.push_back((box.y_px + height / 2) / picture.height_px);
    }
    EXPECT_NEAR(static_cast<double>(areas.size()) / kDraws, wanted["drawn_share"].get<double>(),
                0.01);
    expect_quantiles(areas, wanted, "area_share");
    expect_quantiles(ratios, wanted, "log_ratio");
    expect_quantiles(centres_x, wanted, "centre_x_share");
    expect_quantiles(centres_y, wanted, "centre_y_share");
  }
}

TEST(RandomErasing, HappensWithItsProbability) {
  Erasing erasing;
  erasing.probability = 0.25;
  int count = 0;
  for (std::uint64_t sample = 0; sample < 10'000; ++sample) {
    SampleRandom random(2, 0, sample, 4);
    count += draw_random_erasing({224, 224}, erasing, random) ? 1 : 0;
  }
  EXPECT_NEAR(count, 2500, 260);  // Six standard deviations.
  SampleRandom random(2, 0, 0, 4);
  erasing.probability = 0;
  EXPECT_FALSE(draw_random_erasing({224, 224}, erasing, random));
}

TEST(RandomErasing, APictureOfOnePixelIsLeftAlone) {
  Erasing erasing;
  erasing.probability = 1;
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    SampleRandom random(3, 0, sample, 4);
    EXPECT_FALSE(draw_random_erasing({1, 1}, erasing, random));
  }
}

/// The tensor of `kSize`, all elements `before`, after erasing `kDrawn`; as floats in CHW order.
template <typename Element, typename ToFloat>
std::vector<float> erased(DType dtype, Layout layout, const Erasing& erasing, Element before,
                          const ToFloat& to_float) {
  const std::size_t pixels = std::size_t{kSize.width_px} * kSize.height_px;
  std::vector<Element> tensor(pixels * 3, before);
  erase(tensor.data(), dtype, layout, kSize, erasing, kDrawn);
  std::vector<float> found;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      const std::size_t at = layout == Layout::kChw ? c * pixels + pixel : pixel * 3 + c;
      found.push_back(to_float(tensor[at]));
    }
  }
  return found;
}

std::vector<float> erased(DType dtype, Layout layout, const Erasing& erasing) {
  if (dtype == DType::kUint8) {
    return erased<std::uint8_t>(dtype, layout, erasing, 99,
                                [](std::uint8_t v) { return static_cast<float>(v); });
  }
  if (dtype == DType::kFloat16) {
    return erased(dtype, layout, erasing, half_from_float(99), float_from_half);
  }
  return erased<float>(dtype, layout, erasing, 99, [](float v) { return v; });
}

bool is_in_box(std::size_t x, std::size_t y) { return x >= 2 && x < 5 && y >= 1 && y < 3; }

/// What `erased` gives when `value_of(channel)` fills the box.
template <typename ValueOf>
std::vector<float> filled(const ValueOf& value_of) {
  std::vector<float> wanted;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t y = 0; y < kSize.height_px; ++y) {
      for (std::size_t x = 0; x < kSize.width_px; ++x) {
        wanted.push_back(is_in_box(x, y) ? value_of(c) : 99);
      }
    }
  }
  return wanted;
}

TEST(RandomErasing, FillsTheBoxAndNothingElse) {
  Erasing erasing;
  erasing.value = {0, 0.5F, -2};
  const auto wanted = filled([&](std::size_t c) { return (*erasing.value)[c]; });
  Erasing levels;
  levels.value = {0, 254.6F, 17};
  const auto wanted_levels =
      filled([](std::size_t c) { return std::array{0.0F, 255.0F, 17.0F}[c]; });
  for (const Layout layout : {Layout::kChw, Layout::kHwc}) {
    EXPECT_EQ(erased(DType::kFloat32, layout, erasing), wanted);
    EXPECT_EQ(erased(DType::kFloat16, layout, erasing), wanted);
    EXPECT_EQ(erased(DType::kUint8, layout, levels), wanted_levels);
  }
}

TEST(RandomErasing, BeforeNormalizeTheValueIsNormalized) {
  Erasing erasing;
  erasing.value = {0.25F, 0.5F, 0.75F};
  erasing.mean = kImagenetMean;
  erasing.std = kImagenetStd;
  const auto wanted = filled(
      [&](std::size_t c) { return ((*erasing.value)[c] - kImagenetMean[c]) / kImagenetStd[c]; });
  EXPECT_EQ(erased(DType::kFloat32, Layout::kChw, erasing), wanted);
}

TEST(RandomErasing, NoiseIsTheSameInEveryLayoutAndType) {
  Erasing erasing;
  erasing.value.reset();
  std::uint64_t index = 0;
  const auto wanted = filled([&](std::size_t) { return noise_at(kDrawn.noise_key, index++); });
  EXPECT_EQ(index, 18U);
  EXPECT_EQ(erased(DType::kFloat32, Layout::kChw, erasing), wanted);
  EXPECT_EQ(erased(DType::kFloat32, Layout::kHwc, erasing), wanted);
  const auto halves = erased(DType::kFloat16, Layout::kHwc, erasing);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(halves[i], float_from_half(half_from_float(wanted[i])));
  }
}

TEST(RandomErasing, NoiseIsNormal) {
  constexpr std::uint64_t kCount = 100'000;
  std::array<double, 5> moments{};  // Sums of powers 1 to 4, and of neighbours' products.
  double before = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double value = noise_at({1, 2}, i);
    for (int power = 1; power <= 4; ++power) {
      moments[static_cast<std::size_t>(power - 1)] += std::pow(value, power) / kCount;
    }
    moments[4] += value * before / kCount;
    before = value;
  }
  EXPECT_NEAR(moments[0], 0, 0.02);  // Six standard deviations of each, and more.
  EXPECT_NEAR(moments[1], 1, 0.03);
  EXPECT_NEAR(moments[2], 0, 0.08);
  EXPECT_NEAR(moments[3], 3, 0.2);
  EXPECT_NEAR(moments[4], 0, 0.02);
  EXPECT_NE(noise_at({1, 2}, 0), noise_at({1, 3}, 0));
}

TEST(RandomErasing, NoiseOfASmallStdStaysFiniteInFloat16) {
  Erasing erasing;
  erasing.value.reset();
  erasing.std = {1e-9F, 1e-9F, 1e-9F};
  for (const float value : erased(DType::kFloat16, Layout::kChw, erasing)) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

std::string refusal(const Erasing& erasing, DType dtype = DType::kFloat16) {
  try {
    check(erasing, dtype);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(RandomErasing, ArgumentsAreChecked) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({}, DType::kUint8), "");
  EXPECT_EQ(refusal({.value = std::nullopt}), "");
  EXPECT_EQ(refusal({.probability = 1.5}), "random_erasing: probability is 1.5; give 0 to 1");
  EXPECT_THAT(refusal({.probability = NAN}), HasSubstr("probability is nan"));
  EXPECT_EQ(refusal({.scale = {0.5, 0.1}}),
            "random_erasing: scale is (0.5, 0.1); give (low, high) with low <= high, both from 0 "
            "to 1");
  EXPECT_THAT(refusal({.scale = {0.5, 1.1}}), HasSubstr("scale is (0.5, 1.1)"));
  EXPECT_THAT(refusal({.ratio = {0, 1}}), HasSubstr("ratio is (0, 1)"));
  EXPECT_THAT(refusal({.ratio = {1, INFINITY}}), HasSubstr("ratio is (1, inf)"));
  EXPECT_THAT(refusal({.value = {{0, NAN, 0}}}), HasSubstr("channel 1 is nan"));
  EXPECT_THAT(refusal({.value = {{0, 0, 7e4F}}}), HasSubstr("float16 ends at 65504"));
  EXPECT_EQ(refusal({.value = {{0, 0, 7e4F}}}, DType::kFloat32), "");
  EXPECT_THAT(refusal({.value = {{0, 0, 256}}}, DType::kUint8), HasSubstr("give 0 to 255"));
  EXPECT_THAT(refusal({.value = std::nullopt}, DType::kUint8), HasSubstr("with dtype uint8"));
  EXPECT_THAT(refusal({.std = {1, 0, 1}}), HasSubstr("std 0 of channel 1"));
  EXPECT_THAT(refusal({}, DType::kInt64), HasSubstr("int64"));
}

}  // namespace
}  // namespace feedrace::ops
