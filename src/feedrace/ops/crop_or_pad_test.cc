// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/crop_or_pad.h"

#include "feedrace/ops/op_cases.h"

namespace feedrace::ops {
namespace {

/// Each pixel on its own.
std::vector<std::uint8_t> window_by_pixel(const reference::Image& image, const CropWindow& window) {
  std::vector<std::uint8_t> found;
  for (std::int64_t y = 0; y < window.size.height_px; ++y) {
    for (std::int64_t x = 0; x < window.size.width_px; ++x) {
      const std::int64_t from_x = window.x_px + x;
      const std::int64_t from_y = window.y_px + y;
      const bool inside =
          from_x >= 0 && from_x < image.width_px && from_y >= 0 && from_y < image.height_px;
      for (std::int64_t c = 0; c < 3; ++c) {
        const std::int64_t at = (from_y * image.width_px + from_x) * 3 + c;
        found.push_back(inside ? image.rgb[static_cast<std::size_t>(at)] : 0);
      }
    }
  }
  return found;
}

TEST(CenterWindow, GivesTorchvisionsBytes) {
  const auto cases = read_cases("torchvision_geometry.json", "center_crop");
  ASSERT_EQ(cases.size(), 10U);
  for (const nlohmann::json& wanted : cases) {
    const ImageSize picture = size_in(wanted["picture"]);
    PaddedPicture input(geometry_picture(picture));
    PaddedPicture output(size_in(wanted["crop"]));
    crop_or_pad(input.view(), output.view(),
                center_window(full_size(picture), size_in(wanted["crop"])));
    expect_pixels(wanted, output.pixels());
  }
}

TEST(CenterWindow, IsThatOfTheFusedResize) {
  for (const ImageSize picture : {ImageSize{500, 375}, {333, 500}, {64, 301}, {7, 9}}) {
    const ResizeWindow fused = resize_center_crop(picture, 100, 97);
    const FullSize full = resize_shorter(picture, 100);
    const ResizeWindow got = resize_to_window(picture, full, center_window(full, {97, 97}));
    EXPECT_EQ(got.full_width_px, fused.full_width_px);
    EXPECT_EQ(got.full_height_px, fused.full_height_px);
    EXPECT_EQ(got.x_px, fused.x_px);
    EXPECT_EQ(got.y_px, fused.y_px);
    EXPECT_EQ(got.crop.width_px, picture.width_px);
    EXPECT_EQ(got.output.height_px, 97U);
  }
}

TEST(PlacedWindow, SharesOfTheRoomAreRoundedHalfAwayFromZero) {
  const ImageSize size = {10, 20};
  EXPECT_EQ(placed_window({15, 27}, size, 0, 0), (CropWindow{0, 0, size}));
  EXPECT_EQ(placed_window({15, 27}, size, 1, 1), (CropWindow{5, 7, size}));
  EXPECT_EQ(placed_window({15, 27}, size, 0.5, 0.5), (CropWindow{3, 4, size}));
  EXPECT_EQ(placed_window({15, 27}, size, 0.25, 0.2), (CropWindow{1, 1, size}));
  EXPECT_EQ(placed_window({7, 20}, size, 0.5, 0.5), (CropWindow{-2, 0, size}));
}

TEST(CropOrPad, WindowsThatLeaveThePictureAnywhere) {
  const reference::Image image = geometry_picture({6, 4});
  PaddedPicture input(image);
  for (const std::int64_t x : {-9, -6, -2, 0, 3, 6, 11}) {
    for (const std::int64_t y : {-9, -3, -1, 0, 2, 4, 50}) {
      for (const ImageSize size : {ImageSize{1, 1}, {3, 2}, {6, 4}, {12, 9}}) {
        const CropWindow window = {x, y, size};
        PaddedPicture output(size);
        crop_or_pad(input.view(), output.view(), window);
        EXPECT_EQ(output.pixels(), window_by_pixel(image, window))
            << size.width_px << " x " << size.height_px << " at " << x << ", " << y;
      }
    }
  }
}

}  // namespace
}  // namespace feedrace::ops
