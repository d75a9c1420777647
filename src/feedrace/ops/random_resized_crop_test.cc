// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/random_resized_crop.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace feedrace::ops {
namespace {

constexpr std::array<double, 2> kScale = {0.08, 1.0};
constexpr std::array<double, 2> kRatio = {3.0 / 4, 4.0 / 3};

bool is_inside(const CropBox& crop, ImageSize picture) {
  return crop.width_px > 0 && crop.height_px > 0 && crop.x_px + crop.width_px <= picture.width_px &&
         crop.y_px + crop.height_px <= picture.height_px;
}

/// The cases whose names begin with `prefix`, from the file of cases with known answers.
std::vector<nlohmann::json> cases(const std::string& prefix) {
  std::ifstream file(FEEDRACE_TEST_DATA "/cases/expectations.json");
  const nlohmann::json all = nlohmann::json::parse(file);
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& entry : all["cases"]) {
    if (entry["id"].get<std::string>().starts_with(prefix)) found.push_back(entry);
  }
  return found;
}

void expect_quantiles(std::vector<double> values, const nlohmann::json& expect, const char* name) {
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < expect["quantiles_at"].size(); ++i) {
    const double at = expect["quantiles_at"][i];
    const double value = values[static_cast<std::size_t>(at * static_cast<double>(values.size()))];
    EXPECT_NEAR(value, expect[name][i].get<double>(), expect["tolerance"].get<double>())
        << name << " at " << at;
  }
}

TEST(RandomResizedCrop, SharesMatchTorchvisions) {
  const std::vector<nlohmann::json> found = cases("rrc_distribution");
  ASSERT_FALSE(found.empty());
  for (const nlohmann::json& entry : found) {
    const nlohmann::json& params = entry["params"];
    const ImageSize picture = {params["width"], params["height"]};
    const auto scale = params["scale"].get<std::array<double, 2>>();
    const auto ratio = params["ratio"].get<std::array<double, 2>>();
    std::vector<double> areas, ratios, centres;
    double flips = 0;
    constexpr int kDraws = 40'000;
    for (int sample = 0; sample < kDraws; ++sample) {
      SampleRandom random(1, 0, static_cast<std::uint64_t>(sample), 0);
      const CropBox crop = draw_random_resized_crop(picture, scale, ratio, random);
      ASSERT_TRUE(is_inside(crop, picture));
      areas.push_back(static_cast<double>(crop.width_px) * crop.height_px /
                      (static_cast<double>(picture.width_px) * picture.height_px));
      ratios.push_back(std::log(static_cast<double>(crop.width_px) / crop.height_px));
      centres.push_back((crop.x_px + crop.width_px / 2.0) / picture.width_px);
      flips += draw_flip(entry["expect"]["flip_share"], random) ? 1 : 0;
    }
    expect_quantiles(areas, entry["expect"], "area_share");
    expect_quantiles(ratios, entry["expect"], "log_ratio");
    expect_quantiles(centres, entry["expect"], "centre_x_share");
    EXPECT_NEAR(flips / kDraws, entry["expect"]["flip_share"].get<double>(),
                entry["expect"]["flip_tolerance"].get<double>());
  }
}

TEST(RandomResizedCrop, ThinPicturesGetTheMiddle) {
  const std::vector<nlohmann::json> found = cases("rrc_fallback");
  ASSERT_FALSE(found.empty());
  for (const nlohmann::json& entry : found) {
    const nlohmann::json& params = entry["params"];
    const ImageSize picture = {params["width"], params["height"]};
    for (std::uint64_t sample = 0; sample < 2000; ++sample) {
      SampleRandom random(3, 0, sample, 0);
      const CropBox crop = draw_random_resized_crop(picture, kScale, kRatio, random);
      ASSERT_TRUE(is_inside(crop, picture)) << entry["id"];
      if (!entry["expect"]["always_fallback"].get<bool>()) continue;
      const nlohmann::json& expected = entry["expect"]["fallback_crop"];
      const CropBox wanted = {expected["left"], expected["top"], expected["width"],
                              expected["height"]};
      ASSERT_EQ(crop, wanted) << entry["id"];
    }
  }
}

TEST(RandomResizedCrop, TallPicturesGetTheMiddleToo) {
  SampleRandom random(3, 0, 0, 0);
  // 10 wide and at least 3/4 of the height: round(10 / 0.75) rows of the middle.
  EXPECT_EQ(draw_random_resized_crop({10, 5000}, kScale, kRatio, random),
            (CropBox{0, 2493, 10, 13}));
}

TEST(RandomResizedCrop, IsNeverEmptyWhateverTheRatio) {
  for (std::uint64_t sample = 0; sample < 500; ++sample) {
    SampleRandom random(4, 0, sample, 0);
    EXPECT_TRUE(is_inside(draw_random_resized_crop({1, 7}, {0.01, 0.02}, {8, 9}, random), {1, 7}));
    EXPECT_TRUE(
        is_inside(draw_random_resized_crop({7, 1}, {0.01, 0.02}, {0.1, 0.2}, random), {7, 1}));
  }
}

TEST(RandomResizedCrop, DependsOnSeedEpochAndSampleAlone) {
  const auto draw = [](std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample) {
    SampleRandom random(seed, epoch, sample, 0);
    return draw_random_resized_crop({500, 375}, kScale, kRatio, random);
  };
  EXPECT_EQ(draw(1, 2, 3), draw(1, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 2, 4));
  EXPECT_NE(draw(1, 2, 3), draw(1, 3, 3));
  EXPECT_NE(draw(1, 2, 3), draw(2, 2, 3));
}

TEST(RandomResizedCrop, WholePictureWhenTheScaleSaysSo) {
  SampleRandom random(5, 0, 0, 0);
  EXPECT_EQ(draw_random_resized_crop({64, 64}, {1, 1}, {1, 1}, random), (CropBox{0, 0, 64, 64}));
}

TEST(Flip, ProbabilitiesOfZeroAndOneAreCertain) {
  SampleRandom random(6, 0, 0, 0);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(draw_flip(0, random));
    EXPECT_TRUE(draw_flip(1, random));
  }
}

}  // namespace
}  // namespace feedrace::ops
