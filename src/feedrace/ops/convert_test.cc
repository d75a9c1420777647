// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/convert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"
#include "feedrace/op.h"
#include "feedrace/ops/half.h"
#include "feedrace/ops/level_math.h"
#include "feedrace/ops/random_pictures.h"
#include "feedrace/ops/reference.h"

namespace feedrace::ops {
namespace {

std::string refusal_of(const TensorFormat& format) {
  try {
    check(format);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

class ConverterTest : public testing::TestWithParam<const Kernels*> {};

TEST_P(ConverterTest, EqualsTheReferenceForEveryWidthFormatAndPadding) {
  for (const DType dtype : {DType::kUint8, DType::kFloat16, DType::kFloat32}) {
    for (const Layout layout : {Layout::kChw, Layout::kHwc}) {
      const TensorFormat format = imagenet(dtype, layout);
      const Converter converter(format, *GetParam());
      for (std::uint32_t width = 1; width <= 70; ++width) {
        const reference::Image padded = noise(width + 3, 5, width);
        ConstImageView view = padded.view();
        view.width_px = width;
        std::vector<std::byte> tensor(converter.tensor_bytes({width, 5}));
        converter.convert(view, tensor.data());
        ASSERT_TRUE(tensor == reference::to_tensor(view, format))
            << width << " " << to_string(dtype) << " " << to_string(layout);
      }
    }
  }
}

TEST_P(ConverterTest, ImagenetValuesNeedNoTable) {
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    const TensorFormat format = imagenet(dtype, Layout::kChw);
    EXPECT_TRUE(find_level_math(format, make_level_table(format), *GetParam()).exact)
        << to_string(dtype);
  }
}

TEST_P(ConverterTest, EqualsTheReferenceForManyMeansAndStds) {
  SampleRandom random(7, 0, 0, 0);
  const reference::Image image = noise(256, 1, 7);
  int looked_up = 0;
  for (int round = 0; round < 60; ++round) {
    TensorFormat format;
    format.dtype = round % 2 == 0 ? DType::kFloat16 : DType::kFloat32;
    for (int c = 0; c < 3; ++c) {
      format.mean.push_back(static_cast<float>(random.uniform(-1, 2)));
      format.std.push_back(static_cast<float>(random.uniform(0.01, 2)));
    }
    const Converter converter(format, *GetParam());
    std::vector<std::byte> tensor(converter.tensor_bytes({256, 1}));
    converter.convert(image.view(), tensor.data());
    ASSERT_TRUE(tensor == reference::to_tensor(image.view(), format)) << round;
    looked_up += find_level_math(format, make_level_table(format), *GetParam()).exact ? 0 : 1;
  }
  // The slow way must stay the exception.
  EXPECT_LT(looked_up, 15);
}

INSTANTIATE_TEST_SUITE_P(Kernels, ConverterTest, testing::ValuesIn(available_kernels()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST(LevelTable, IsTorchvisionsExpressionRoundedOnce) {
  const LevelTable table = make_level_table(imagenet(DType::kFloat16, Layout::kChw));
  // float32 of ((128 / 255) - 0.485) / 0.229 and its half, by numpy.
  EXPECT_EQ(table.values[0][128], 0x1.2f5e64p-4F);
  EXPECT_EQ(float_from_half(table.halves[0][255]), 2.248046875F);
  EXPECT_EQ(float_from_half(table.halves[1][0]), -2.03515625F);
}

TEST(LevelTable, WithoutMeanAndStdIsTheShareOf255) {
  TensorFormat format;
  format.dtype = DType::kFloat32;
  const LevelTable table = make_level_table(format);
  for (std::size_t level = 0; level < 256; ++level) {
    EXPECT_EQ(table.values[1][level], static_cast<float>(level) / 255.0F);
  }
}

TEST(TensorFormat, RefusalsSayWhatIsWrongAndWhatToDo) {
  TensorFormat format = imagenet(DType::kFloat16, Layout::kChw);
  EXPECT_EQ(refusal_of(format), "accepted");
  format.std[1] = 0;
  EXPECT_EQ(refusal_of(format),
            "normalize: std of channel 1 is 0; give a finite number other than 0");
  format.std[1] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(refusal_of(format), testing::HasSubstr("std of channel 1 is inf"));
  format.std[1] = 1e-6F;
  EXPECT_THAT(refusal_of(format), testing::HasSubstr("float16 ends at 65504"));
  format.dtype = DType::kFloat32;
  EXPECT_EQ(refusal_of(format), "accepted");
  format.mean[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal_of(format), testing::HasSubstr("mean of channel 2 is nan"));
  format.mean = {0.5F};
  EXPECT_EQ(refusal_of(format),
            "normalize: mean has length 1; give one value for each of the 3 channels");
  format.mean.clear();
  format.dtype = DType::kUint8;
  EXPECT_THAT(refusal_of(format), testing::HasSubstr("dtype uint8"));
  format.std.clear();
  EXPECT_EQ(refusal_of(format), "accepted");
  format.dtype = DType::kInt64;
  EXPECT_THAT(refusal_of(format), testing::HasSubstr("int64"));
}

}  // namespace
}  // namespace feedrace::ops
