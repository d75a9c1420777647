// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/flip.h"

#include "feedrace/ops/op_cases.h"

namespace feedrace::ops {
namespace {

TEST(FlipPicture, GivesTorchvisionsBytes) {
  const auto cases = read_cases("torchvision_geometry.json", "flip");
  ASSERT_EQ(cases.size(), 16U);
  for (const nlohmann::json& wanted : cases) {
    PaddedPicture input(geometry_picture(size_in(wanted["picture"])));
    PaddedPicture output(size_in(wanted["result"]));
    flip(input.view(), output.view(), {wanted["horizontal"], wanted["vertical"]});
    expect_pixels(wanted, output.pixels());
  }
}

}  // namespace
}  // namespace feedrace::ops
