// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/op.h"
#include "feedrace/ops/reference_resample.h"

// What tests of ops share: the answers of Pillow and torchvision in tests/data/ops, and pictures
// whose rows are padded.
namespace feedrace::ops {

inline std::vector<nlohmann::json> read_cases(const std::string& file_name,
                                              const std::string& group) {
  std::ifstream file(FEEDRACE_TEST_DATA "/data/ops/" + file_name);
  const nlohmann::json all = nlohmann::json::parse(file);
  return all.at(group).get<std::vector<nlohmann::json>>();
}

inline ImageSize size_in(const nlohmann::json& pair) { return {pair.at(0), pair.at(1)}; }

/// The twin of `picture` in make_torchvision_geometry.py.
inline reference::Image geometry_picture(ImageSize size) {
  reference::Image image(size.width_px, size.height_px);
  std::uint32_t value = 0;
  for (std::uint8_t& byte : image.rgb) {
    byte = static_cast<std::uint8_t>(value >> 24);
    value += 2654435761U;
  }
  return image;
}

/// The twin of `digest` in make_pillow_color.py.
inline std::string digest(const std::vector<std::uint8_t>& bytes) {
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;
  std::uint64_t sum = 0;
  std::uint64_t place = 0;
  for (const std::uint8_t byte : bytes) {
    place += kStep;
    sum += place * (std::uint64_t{byte} + 1);
  }
  return fmt::format("{:016x}", sum);
}

inline std::string hex(const std::vector<std::uint8_t>& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

/// A picture with bytes behind each row that nobody may touch.
class PaddedPicture {
 public:
  explicit PaddedPicture(ImageSize size)
      : size_(size), bytes_(row_bytes() * size.height_px, kPad) {}
  explicit PaddedPicture(const reference::Image& image)
      : PaddedPicture(ImageSize{image.width_px, image.height_px}) {
    for (std::size_t y = 0; y < size_.height_px; ++y) {
      std::copy_n(&image.rgb[y * used()], used(), &bytes_[y * row_bytes()]);
    }
  }

  ImageView view() { return {bytes_.data(), row_bytes(), size_.width_px, size_.height_px}; }

  /// The pixels alone; fails the test where bytes behind a row have changed.
  std::vector<std::uint8_t> pixels() const {
    std::vector<std::uint8_t> found;
    for (std::size_t y = 0; y < size_.height_px; ++y) {
      const auto row = bytes_.begin() + static_cast<std::ptrdiff_t>(y * row_bytes());
      const auto end = row + static_cast<std::ptrdiff_t>(used());
      found.insert(found.end(), row, end);
      EXPECT_EQ(std::count(end, end + kPadBytes, kPad), kPadBytes) << "behind row " << y;
    }
    return found;
  }

 private:
  static constexpr std::uint8_t kPad = 0xA5;
  static constexpr std::ptrdiff_t kPadBytes = 7;
  std::size_t used() const { return std::size_t{size_.width_px} * 3; }
  std::size_t row_bytes() const { return used() + kPadBytes; }

  ImageSize size_;
  std::vector<std::uint8_t> bytes_;
};

/// Compares with a case's "digest", and "rgb" where it has one.
inline void expect_pixels(const nlohmann::json& wanted, const std::vector<std::uint8_t>& got) {
  EXPECT_EQ(digest(got), wanted.at("digest").get<std::string>()) << wanted;
  if (!wanted.contains("rgb")) return;
  EXPECT_EQ(hex(got), wanted["rgb"].get<std::string>()) << wanted;
}

}  // namespace feedrace::ops
