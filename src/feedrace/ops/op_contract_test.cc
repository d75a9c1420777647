// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/op_contract.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "feedrace/ops/convert.h"
#include "feedrace/ops/fused_pass.h"

namespace feedrace::ops {
namespace {

/// Upside down.
class VerticalFlip final : public Op {
 public:
  std::string_view name() const noexcept override { return "vertical_flip"; }
  ImageSize plan(ImageSize input) const override { return input; }
  void run(const ConstImageView& input, const ImageView& output, SampleRandom&) const override {
    for (std::size_t y = 0; y < input.height_px; ++y) {
      std::memcpy(output.rgb + (input.height_px - 1 - y) * output.row_bytes,
                  input.rgb + y * input.row_bytes, std::size_t{input.width_px} * 3);
    }
  }
};

/// Turned by a quarter: the size changes.
class QuarterTurn final : public Op {
 public:
  std::string_view name() const noexcept override { return "quarter_turn"; }
  ImageSize plan(ImageSize input) const override { return {input.height_px, input.width_px}; }
  void run(const ConstImageView& input, const ImageView& output, SampleRandom&) const override {
    for (std::size_t y = 0; y < input.height_px; ++y) {
      for (std::size_t x = 0; x < input.width_px; ++x) {
        std::memcpy(output.rgb + x * output.row_bytes + (input.height_px - 1 - y) * 3,
                    input.rgb + y * input.row_bytes + x * 3, 3);
      }
    }
  }
};

/// Brighter by a random amount.
class Brighten final : public Op {
 public:
  std::string_view name() const noexcept override { return "brighten"; }
  ImageSize plan(ImageSize input) const override { return input; }
  void run(const ConstImageView& input, const ImageView& output,
           SampleRandom& random) const override {
    const std::uint64_t amount = random.below(64);
    for (std::size_t y = 0; y < input.height_px; ++y) {
      for (std::size_t x = 0; x < std::size_t{input.width_px} * 3; ++x) {
        const std::uint64_t value = input.rgb[y * input.row_bytes + x] + amount;
        output.rgb[y * output.row_bytes + x] =
            static_cast<std::uint8_t>(std::min<std::uint64_t>(value, 255));
      }
    }
  }
};

std::vector<std::shared_ptr<const Op>> all_ops() {
  return {std::make_shared<VerticalFlip>(), std::make_shared<QuarterTurn>(),
          std::make_shared<Brighten>()};
}

class OpContract : public testing::TestWithParam<std::shared_ptr<const Op>> {};

TEST_P(OpContract, Holds) { expect_op_contract(*GetParam()); }

INSTANTIATE_TEST_SUITE_P(Ops, OpContract, testing::ValuesIn(all_ops()),
                         [](const auto& param) { return std::string(param.param->name()); });

TEST(OpContract, AnOpBetweenResizeAndConversionSeesTheResizedPicture) {
  const reference::Image crop = noise(50, 40, 1);
  const ResizeWindow resize = resize_to({50, 40}, {32, 24});
  TensorFormat plain;
  plain.dtype = DType::kUint8;
  plain.layout = Layout::kHwc;
  FusedPass pass(plain);
  reference::Image resized(32, 24);
  pass.begin({resize, false}, resized.rgb.data());
  pass.push_rows(crop.rgb.data(), 150, 40);

  reference::Image flipped(32, 24);
  SampleRandom random(1, 0, 0, 0);
  VerticalFlip().run(resized.view(), flipped.view(), random);
  TensorFormat format;
  format.dtype = DType::kFloat32;
  const Converter converter(format);
  std::vector<std::byte> tensor(converter.tensor_bytes({32, 24}));
  converter.convert(flipped.view(), tensor.data());

  reference::Image wanted = reference::resize_window(crop.view(), resize);
  reference::Image upside_down(32, 24);
  VerticalFlip().run(wanted.view(), upside_down.view(), random);
  EXPECT_TRUE(tensor == reference::to_tensor(upside_down.view(), format));
}

}  // namespace
}  // namespace feedrace::ops
