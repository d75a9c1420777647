// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/pad.h"

#include "feedrace/ops/op_cases.h"

namespace feedrace::ops {
namespace {

PadMode mode_named(const std::string& name) {
  for (const PadMode mode :
       {PadMode::kConstant, PadMode::kEdge, PadMode::kReflect, PadMode::kSymmetric}) {
    if (to_string(mode) == name) return mode;
  }
  ADD_FAILURE() << "no mode " << name;
  return PadMode::kConstant;
}

Padding padding_in(const nlohmann::json& wanted) {
  Padding padding;
  padding.left_px = wanted["padding"][0];
  padding.top_px = wanted["padding"][1];
  padding.right_px = wanted["padding"][2];
  padding.bottom_px = wanted["padding"][3];
  padding.mode = mode_named(wanted["mode"]);
  for (std::size_t c = 0; c < 3; ++c) padding.fill[c] = wanted["fill"][c];
  return padding;
}

TEST(Pad, GivesTorchvisionsBytes) {
  const auto cases = read_cases("torchvision_geometry.json", "pad");
  ASSERT_EQ(cases.size(), 13U);
  for (const nlohmann::json& wanted : cases) {
    const Padding padding = padding_in(wanted);
    const auto size = padded_size(size_in(wanted["picture"]), padding);
    ASSERT_TRUE(size) << wanted;
    EXPECT_EQ(size->width_px, wanted["result"][0].get<std::uint32_t>()) << wanted;
    EXPECT_EQ(size->height_px, wanted["result"][1].get<std::uint32_t>()) << wanted;
    PaddedPicture input(geometry_picture(size_in(wanted["picture"])));
    PaddedPicture output(*size);
    pad(input.view(), output.view(), padding);
    expect_pixels(wanted, output.pixels());
  }
}

TEST(Pad, ReflectMirrorsLessThanThePicture) {
  const Padding wide = {.right_px = 3, .mode = PadMode::kReflect};
  EXPECT_TRUE(padded_size({4, 1}, wide));
  const auto refused = padded_size({3, 9}, wide);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "pad: a border of 3 px with mode reflect on a picture 3 px wide; make the border less "
            "than the picture, or use mode symmetric");
  const Padding high = {.top_px = 1, .mode = PadMode::kReflect};
  EXPECT_FALSE(padded_size({9, 1}, high));
}

TEST(Pad, SidesThatNoPictureHasAreRefused) {
  const auto refused = padded_size({10, 10}, {.left_px = 4'294'967'290U});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "pad: the padded picture is 4294967300 px wide; use a smaller border");
}

}  // namespace
}  // namespace feedrace::ops
