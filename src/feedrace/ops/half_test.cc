// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/half.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "feedrace/ops/reference.h"

namespace feedrace::ops {
namespace {

TEST(Half, KnownValues) {
  EXPECT_EQ(half_from_float(0.0F), 0x0000);
  EXPECT_EQ(half_from_float(-0.0F), 0x8000);
  EXPECT_EQ(half_from_float(1.0F), 0x3C00);
  EXPECT_EQ(half_from_float(-2.0F), 0xC000);
  EXPECT_EQ(half_from_float(65504.0F), 0x7BFF);
  EXPECT_EQ(half_from_float(0x1.0p-14F), 0x0400);  // The least normal,
  EXPECT_EQ(half_from_float(0x1.0p-24F), 0x0001);  // the least subnormal,
  EXPECT_EQ(half_from_float(0x1.0p-25F), 0x0000);  // a tie with 0, which is even,
  EXPECT_EQ(half_from_float(std::nextafter(0x1.0p-25F, 1.0F)), 0x0001);  // and just above it.
}

TEST(Half, GoesToInfinityFromTheMiddleOfTheNextStep) {
  EXPECT_EQ(half_from_float(std::nextafter(65520.0F, 0.0F)), 0x7BFF);
  EXPECT_EQ(half_from_float(65520.0F), 0x7C00);
  EXPECT_EQ(half_from_float(-1e30F), 0xFC00);
  EXPECT_EQ(half_from_float(std::numeric_limits<float>::infinity()), 0x7C00);
}

TEST(Half, KeepsNotANumber) {
  const std::uint16_t bits = half_from_float(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(bits & 0x7C00, 0x7C00);
  EXPECT_NE(bits & 0x03FF, 0);
  EXPECT_TRUE(std::isnan(float_from_half(bits)));
  const auto narrow = std::bit_cast<float>(0x7F800001U);  // Its payload is lost, its kind is not.
  EXPECT_TRUE(std::isnan(float_from_half(half_from_float(narrow))));
}

TEST(Half, EveryHalfComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = float_from_half(half);
    if (std::isnan(value)) continue;
    ASSERT_EQ(half_from_float(value), half) << bits;
  }
}

TEST(Half, MiddlesGoToEvenAndTheirNeighboursToTheNearer) {
  for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = float_from_half(static_cast<std::uint16_t>(bits));
    const float high = float_from_half(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // Exact: float has the bits.
    ASSERT_EQ(half_from_float(middle), bits + (bits & 1)) << bits;
    ASSERT_EQ(half_from_float(std::nextafter(middle, low)), bits) << bits;
    ASSERT_EQ(half_from_float(std::nextafter(middle, high)), bits + 1) << bits;
  }
}

TEST(Half, EqualsRoundingByValuesOverAllExponents) {
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 20011) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_from_half(half_from_float(value)), reference::nearest_half(value)) << bits;
  }
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
TEST(Half, EqualsTheCompilersOwn) {
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 5003) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(half_from_float(value), std::bit_cast<std::uint16_t>(static_cast<_Float16>(value)))
        << bits;
  }
}
#endif

}  // namespace
}  // namespace feedrace::ops
