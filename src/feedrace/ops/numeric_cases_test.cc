// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <spng.h>

#include "feedrace/error.h"
#include "feedrace/ops/fused_pass.h"
#include "feedrace/ops/half.h"
#include "feedrace/ops/reference.h"

// Tensors that torchvision and Pillow made, and values known from the definition.
namespace feedrace::ops {
namespace {

const std::string kFolder = FEEDRACE_TEST_DATA "/cases/";

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

reference::Image read_png(const std::string& path) {
  const std::vector<char> file = bytes_of(path);
  const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> png(spng_ctx_new(0), &spng_ctx_free);
  spng_set_png_buffer(png.get(), file.data(), file.size());
  spng_ihdr header{};
  EXPECT_EQ(spng_get_ihdr(png.get(), &header), 0) << path;
  reference::Image image(header.width, header.height);
  EXPECT_EQ(spng_decode_image(png.get(), image.rgb.data(), image.rgb.size(), SPNG_FMT_RGB8, 0), 0)
      << path;
  return image;
}

/// The values of a .npy file of version 1 that holds float16.
std::vector<float> read_halves(const std::string& path) {
  const std::vector<char> file = bytes_of(path);
  std::uint16_t header_bytes = 0;
  std::memcpy(&header_bytes, &file[8], sizeof(header_bytes));
  const std::string header(&file[10], header_bytes);
  EXPECT_NE(header.find("'<f2'"), std::string::npos) << header;
  std::vector<std::uint16_t> bits((file.size() - 10 - header_bytes) / 2);
  std::memcpy(bits.data(), &file[std::size_t{10} + header_bytes], bits.size() * 2);
  std::vector<float> values;
  for (const std::uint16_t half : bits) values.push_back(float_from_half(half));
  return values;
}

std::vector<nlohmann::json> cases(const std::string& prefix) {
  std::ifstream file(kFolder + "expectations.json");
  const nlohmann::json all = nlohmann::json::parse(file);
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& entry : all["cases"]) {
    if (entry["id"].get<std::string>().starts_with(prefix)) found.push_back(entry);
  }
  return found;
}

TensorFormat format_of(const nlohmann::json& params) {
  TensorFormat format;
  format.dtype = DType::kFloat16;
  format.layout = Layout::kChw;
  format.mean = params["mean"].get<std::vector<float>>();
  format.std = params["std"].get<std::vector<float>>();
  return format;
}

std::vector<float> run(const reference::Image& crop, ImageSize size, bool flip,
                       const TensorFormat& format) {
  FusedPass pass(format);
  std::vector<std::uint16_t> tensor(pass.tensor_bytes(size) / 2);
  pass.begin({resize_to({crop.width_px, crop.height_px}, size), flip}, tensor.data());
  EXPECT_EQ(pass.source(), (CropBox{0, 0, crop.width_px, crop.height_px}));
  pass.push_rows(crop.rgb.data(), std::size_t{crop.width_px} * 3, crop.height_px);
  std::vector<float> values;
  for (const std::uint16_t half : tensor) values.push_back(float_from_half(half));
  return values;
}

TEST(NumericCases, TensorsMatch) {
  const std::vector<nlohmann::json> found = cases("num_");
  ASSERT_FALSE(found.empty());
  for (const nlohmann::json& entry : found) {
    const nlohmann::json& params = entry["params"];
    const reference::Image picture = read_png(kFolder + entry["file"].get<std::string>());
    const nlohmann::json& box = params["crop"];
    const reference::Image crop =
        reference::crop(picture.view(), {box["left"], box["top"], box["width"], box["height"]});
    const std::vector<float> got =
        run(crop, {params["size"][1], params["size"][0]}, params["flip"], format_of(params));
    const std::vector<float> wanted =
        read_halves(kFolder + entry["expect"]["tensor"].get<std::string>());
    ASSERT_EQ(got.size(), wanted.size()) << entry["id"];
    double most = 0;
    double sum = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double difference = std::abs(got[i] - wanted[i]);
      most = std::max(most, difference);
      sum += difference;
    }
    const nlohmann::json& tolerance = entry["expect"]["tolerance"];
    EXPECT_LE(most, tolerance["max_abs"].get<double>()) << entry["id"];
    EXPECT_LE(sum / static_cast<double>(got.size()), tolerance["mean_abs"].get<double>())
        << entry["id"];
  }
}

TEST(NumericCases, FlatPicturesGiveTheKnownValues) {
  const nlohmann::json entry = cases("norm_white_black").at(0);
  const nlohmann::json& params = entry["params"];
  const reference::Image picture = read_png(kFolder + entry["file"].get<std::string>());
  const std::vector<float> got =
      run(picture, {params["size"][1], params["size"][0]}, true, format_of(params));
  const std::size_t plane = got.size() / 3;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], entry["expect"]["channel_values"][i / plane].get<float>(),
                entry["expect"]["tolerance"]["max_abs"].get<float>());
  }
}

TEST(NumericCases, WrongMeanAndStdAreRefusedWhenThePassIsMade) {
  for (const char* id : {"norm_std_zero", "norm_wrong_length"}) {
    const nlohmann::json entry = cases(id).at(0);
    try {
      const FusedPass pass(format_of(entry["params"]));
      ADD_FAILURE() << id << " was accepted";
    } catch (const Error& error) {
      const std::string message = error.what();
      const auto& words = entry["expect"]["error_should_contain_one_of"];
      EXPECT_TRUE(std::any_of(words.begin(), words.end(), [&message](const nlohmann::json& word) {
        return message.find(word.get<std::string>()) != std::string::npos;
      })) << message;
    }
  }
}

}  // namespace
}  // namespace feedrace::ops
