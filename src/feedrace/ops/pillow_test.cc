// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/ops/fused_pass.h"
#include "feedrace/ops/reference.h"

// Pillow's own results, made by tests/data/ops/make_pillow_resize.py: no difference is allowed.
namespace feedrace::ops {
namespace {

struct Case {
  reference::Image crop;
  ImageSize output;
  std::string fnv1a;
  std::string rgb;  ///< In hexadecimal; empty for large results.
};

/// The twin of `picture` in the script.
reference::Image picture(std::uint32_t width, std::uint32_t height, bool extreme) {
  reference::Image image(width, height);
  std::uint32_t value = width * 40503U + height;
  for (std::uint8_t& byte : image.rgb) {
    byte = static_cast<std::uint8_t>((value ^ value >> 15) * 2246822519U >> 24);
    if (extreme) byte = byte < 128 ? 0 : 255;
    value += 2654435761U;
  }
  return image;
}

std::vector<Case> read_cases() {
  std::ifstream file(FEEDRACE_TEST_DATA "/data/ops/pillow_resize.json");
  const nlohmann::json all = nlohmann::json::parse(file);
  std::vector<Case> cases;
  for (const nlohmann::json& entry : all["cases"]) {
    Case found;
    found.crop = picture(entry["crop"][0], entry["crop"][1], entry["extreme"]);
    found.output = {entry["output"][0], entry["output"][1]};
    found.fnv1a = entry["fnv1a"];
    found.rgb = entry.value("rgb", "");
    cases.push_back(found);
  }
  return cases;
}

std::string fnv1a(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const std::uint8_t byte : bytes) value = (value ^ byte) * 0x100000001B3;
  return fmt::format("{:016x}", value);
}

void expect_pillows(const Case& wanted, const std::vector<std::uint8_t>& got,
                    const std::string& who) {
  const std::string where =
      fmt::format("{}: {}x{} to {}x{}", who, wanted.crop.width_px, wanted.crop.height_px,
                  wanted.output.width_px, wanted.output.height_px);
  EXPECT_EQ(fnv1a(got), wanted.fnv1a) << where;
  if (wanted.rgb.empty()) return;
  std::string hex;
  for (const std::uint8_t byte : got) hex += fmt::format("{:02x}", byte);
  EXPECT_EQ(hex, wanted.rgb) << where;
}

TEST(Pillow, TheReferenceGivesItsBytes) {
  const std::vector<Case> cases = read_cases();
  ASSERT_GT(cases.size(), 20U);
  for (const Case& wanted : cases) {
    expect_pillows(wanted, reference::resize(wanted.crop.view(), wanted.output).rgb, "reference");
  }
}

TEST(Pillow, EveryKernelGivesItsBytes) {
  TensorFormat format;
  format.dtype = DType::kUint8;
  format.layout = Layout::kHwc;
  for (const Kernels* kernels : available_kernels()) {
    FusedPass pass(format, *kernels);
    for (const Case& wanted : read_cases()) {
      const reference::Image& crop = wanted.crop;
      std::vector<std::uint8_t> got(pass.tensor_bytes(wanted.output));
      pass.begin({resize_to({crop.width_px, crop.height_px}, wanted.output), false}, got.data());
      const CropBox& part = pass.source();
      const std::size_t row_bytes = std::size_t{crop.width_px} * 3;
      pass.push_rows(&crop.rgb[part.y_px * row_bytes + std::size_t{part.x_px} * 3], row_bytes,
                     part.height_px);
      expect_pillows(wanted, got, kernels->name);
    }
  }
}

}  // namespace
}  // namespace feedrace::ops
