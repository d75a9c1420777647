// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/color_adjust.h"

#include "feedrace/ops/grayscale.h"
#include "feedrace/ops/op_cases.h"
#include "feedrace/ops/random_pictures.h"

// Pillow's own results, made by tests/data/ops/make_pillow_color.py: no difference is allowed.
namespace feedrace::ops {
namespace {

/// The twin of `colors` in the script.
reference::Image colors(std::uint32_t step, std::uint32_t rows) {
  const std::uint32_t levels = 255 / step + 1;
  reference::Image image(levels * levels, rows);
  std::uint8_t* to = image.rgb.data();
  for (std::uint32_t red = 0; red < rows; ++red) {
    for (std::uint32_t green = 0; green < levels; ++green) {
      for (std::uint32_t blue = 0; blue < levels; ++blue) {
        for (const std::uint32_t index : {red, green, blue}) {
          *to++ = static_cast<std::uint8_t>(index * step);
        }
      }
    }
  }
  return image;
}

void adjust(const std::string& name, const ImageView& pixels, double factor,
            const ColorKernels& kernels) {
  if (name == "brightness") return adjust_brightness(pixels, factor, kernels);
  if (name == "contrast") return adjust_contrast(pixels, factor, kernels);
  if (name == "saturation") return adjust_saturation(pixels, factor, kernels);
  if (name == "hue") return adjust_hue(pixels, factor, kernels);
  ASSERT_EQ(name, "grayscale");
  grayscale(pixels, kernels);
}

/// The cases of `name`, run by every set of kernels.
void expect_pillows(const std::string& name, std::size_t least_cases) {
  std::size_t found = 0;
  for (const nlohmann::json& wanted : read_cases("pillow_color.json", "cases")) {
    if (wanted["adjustment"] != name) continue;
    ++found;
    const reference::Image input = colors(wanted["step"], wanted["rows"]);
    for (const ColorKernels* kernels : available_color_kernels()) {
      reference::Image image = input;
      adjust(name, image.view(), wanted["factor"], *kernels);
      EXPECT_EQ(digest(image.rgb), wanted["digest"].get<std::string>())
          << kernels->name << ": " << wanted;
    }
  }
  EXPECT_GE(found, least_cases);
}

TEST(ColorAdjust, BrightnessIsPillows) { expect_pillows("brightness", 4); }
TEST(ColorAdjust, ContrastIsPillows) { expect_pillows("contrast", 5); }
TEST(ColorAdjust, SaturationIsPillows) { expect_pillows("saturation", 4); }
/// Two of the cases turn all colours that there are.
TEST(ColorAdjust, HueIsPillows) { expect_pillows("hue", 6); }
TEST(ColorAdjust, GrayscaleIsPillowsForAllColors) { expect_pillows("grayscale", 1); }

TEST(ColorAdjust, SetsAgreeAtEveryWidthAndStayInTheirRows) {
  for (std::uint32_t width_px = 1; width_px <= 40; ++width_px) {
    const reference::Image input = noise(width_px, 3, width_px);
    for (const char* name : {"brightness", "contrast", "saturation", "hue", "grayscale"}) {
      reference::Image wanted = input;
      adjust(name, wanted.view(), 0.4, scalar_color_kernels());
      EXPECT_NE(wanted.rgb, input.rgb) << name;
      for (const ColorKernels* kernels : available_color_kernels()) {
        PaddedPicture image(input);
        adjust(name, image.view(), 0.4, *kernels);
        EXPECT_EQ(image.pixels(), wanted.rgb) << name << ", " << kernels->name << ", " << width_px;
      }
    }
  }
}

}  // namespace
}  // namespace feedrace::ops
