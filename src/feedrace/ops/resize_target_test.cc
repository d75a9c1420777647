// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/resize_target.h"

#include "feedrace/ops/op_cases.h"

namespace feedrace::ops {
namespace {

FullSize resize_as_said(const nlohmann::json& wanted) {
  const ImageSize picture = size_in(wanted["picture"]);
  if (wanted.contains("longer")) return resize_longer(picture, wanted["longer"]);
  std::optional<std::uint32_t> longest_px;
  if (!wanted["longest"].is_null()) longest_px = wanted["longest"].get<std::uint32_t>();
  return resize_shorter(picture, wanted["shorter"], longest_px);
}

TEST(ResizeTarget, IsTorchvisions) {
  const auto cases = read_cases("torchvision_geometry.json", "resize");
  ASSERT_GT(cases.size(), 90U);
  for (const nlohmann::json& wanted : cases) {
    // A side of 0, which torchvision then fails at, is a pixel here.
    const auto [width_px, height_px] = size_in(wanted["result"]);
    EXPECT_EQ(resize_as_said(wanted), (FullSize{std::max(width_px, 1U), std::max(height_px, 1U)}))
        << wanted;
  }
}

TEST(ResizeTarget, OfALineIsLongerThan32Bits) {
  EXPECT_EQ(resize_shorter({1, 65'535}, 100'000), (FullSize{100'000, 6'553'500'000}));
}

}  // namespace
}  // namespace feedrace::ops
