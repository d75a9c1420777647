// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/pixels.h"

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "feedrace/jpeg/entropy.h"
#include "feedrace/jpeg/zigzag.h"
#include "feedrace/random.h"

namespace feedrace::jpeg {
namespace {

using Block = std::array<std::int16_t, kBlockSize>;  // In zigzag order.
using Samples = std::array<std::uint8_t, 64>;

// ---- The transform, one value at a time ----

/// A factor of the transform, times 2^13.
constexpr std::int32_t fix(double factor) { return static_cast<std::int32_t>(factor * 8192 + 0.5); }

std::int16_t wrap(std::int64_t value) { return static_cast<std::int16_t>(value); }

std::int16_t saturate(std::int64_t value) {
  return static_cast<std::int16_t>(std::clamp<std::int64_t>(value, -32768, 32767));
}

/// Eight values at a distance of `step`, in place: sums of 16 bits wrap, results saturate, as the
/// vectors of libjpeg-turbo have it.
void plain_dct(std::int16_t* v, std::size_t step, int shift) {
  const auto in = [&](std::size_t i) { return std::int32_t{v[i * step]}; };
  const std::int64_t sum = std::int64_t{wrap(in(0) + in(4))} * 8192;
  const std::int64_t difference = std::int64_t{wrap(in(0) - in(4))} * 8192;
  const std::int64_t slow =
      in(2) * (fix(0.541196100) + fix(0.765366865)) + in(6) * fix(0.541196100);
  const std::int64_t fast =
      in(2) * fix(0.541196100) + in(6) * (fix(0.541196100) - fix(1.847759065));
  const std::array<std::int64_t, 4> even = {sum + slow, difference + fast, difference - fast,
                                            sum - slow};
  const std::int64_t third = wrap(in(3) + in(7));
  const std::int64_t fourth = wrap(in(1) + in(5));
  const std::int64_t z3 = third * (fix(1.175875602) - fix(1.961570560)) + fourth * fix(1.175875602);
  const std::int64_t z4 = third * fix(1.175875602) + fourth * (fix(1.175875602) - fix(0.390180644));
  const std::array<std::int64_t, 4> odd = {
      in(1) * (fix(1.501321110) - fix(0.899976223)) - in(7) * fix(0.899976223) + z4,
      in(3) * (fix(3.072711026) - fix(2.562915447)) - in(5) * fix(2.562915447) + z3,
      in(5) * (fix(2.053119869) - fix(2.562915447)) - in(3) * fix(2.562915447) + z4,
      in(7) * (fix(0.298631336) - fix(0.899976223)) - in(1) * fix(0.899976223) + z3,
  };
  const auto result = [&](std::int64_t value) {
    const auto rounded = static_cast<std::int32_t>(value + (std::int64_t{1} << (shift - 1)));
    return saturate(rounded >> shift);
  };
  for (std::size_t i = 0; i < 4; ++i) {
    v[i * step] = result(even.at(i) + odd.at(i));
    v[(7 - i) * step] = result(even.at(i) - odd.at(i));
  }
}

Samples plain_samples(const Block& block, const Block& quant) {
  std::array<std::int16_t, 64> levels{};
  for (std::size_t k = 0; k < 64; ++k) {
    levels.at(kNaturalOrder.at(k)) = wrap(block.at(k) * quant.at(k));
  }
  for (std::size_t x = 0; x < 8; ++x) plain_dct(&levels.at(x), 8, 11);
  for (std::size_t y = 0; y < 8; ++y) plain_dct(&levels.at(8 * y), 1, 18);
  Samples samples{};
  for (std::size_t i = 0; i < 64; ++i) {
    samples.at(i) = static_cast<std::uint8_t>(std::clamp(levels.at(i) + 128, 0, 255));
  }
  return samples;
}

/// Coefficients up to `last`, the more the denser, of at most `peak`.
Block random_block(SampleRandom& random, unsigned last, std::uint64_t peak, unsigned density) {
  Block block{};
  for (unsigned k = 0; k <= last; ++k) {
    if (random.below(8) >= density && k != last) continue;
    block.at(k) = static_cast<std::int16_t>(static_cast<std::int64_t>(random.below(2 * peak + 1)) -
                                            static_cast<std::int64_t>(peak));
  }
  return block;
}

/// Blocks beside each other by one set of loops against the plain transform. Counts those that the
/// set has no word for.
void expect_samples(const PixelKernels& kernels, const std::vector<Block>& blocks,
                    const std::vector<std::uint8_t>& last, const Block& quant, int& refused_count) {
  std::vector<std::int16_t> coefficients;
  for (const Block& block : blocks)
    coefficients.insert(coefficients.end(), block.begin(), block.end());
  const std::size_t row_bytes = 8 * blocks.size() + kSpareSamples;
  std::vector<std::uint8_t> samples(8 * row_bytes, 0xcd);
  if (!kernels.inverse_dct(coefficients.data(), last.data(), blocks.size(), quant.data(),
                           samples.data(), row_bytes)) {
    ++refused_count;
    return;
  }
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Samples expected = plain_samples(blocks[b], quant);
    for (std::size_t y = 0; y < 8; ++y) {
      for (std::size_t x = 0; x < 8; ++x) {
        ASSERT_EQ(samples[y * row_bytes + 8 * b + x], expected.at(8 * y + x))
            << kernels.name << " block " << b << " of " << blocks.size() << " last " << int{last[b]}
            << " at " << x << "," << y;
      }
    }
  }
}

TEST(Pixels, TheTransformOfEveryLastCoefficientEqualsThePlainOne) {
  for (const PixelKernels* kernels : pixel_kernels()) {
    SampleRandom random(1, 0, 0, 0);
    int refused_count = 0;
    for (int i = 0; i < 40; ++i) {
      for (unsigned most = 0; most < 64; ++most) {
        std::vector<Block> blocks;
        std::vector<std::uint8_t> last;
        for (std::uint64_t count = 1 + random.below(5); count > 0; --count) {
          const auto own = static_cast<unsigned>(random.below(most + 1));
          blocks.push_back(
              random_block(random, own, 120, static_cast<unsigned>(1 + random.below(8))));
          // Where the last is not known it lies above.
          last.push_back(static_cast<std::uint8_t>(own + random.below(64 - own) / 8));
        }
        last.back() = static_cast<std::uint8_t>(most);
        Block quant{};
        for (std::int16_t& value : quant) value = static_cast<std::int16_t>(1 + random.below(16));
        expect_samples(*kernels, blocks, last, quant, refused_count);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_EQ(refused_count, 0) << kernels->name;
  }
}

TEST(Pixels, OneLevelEverywhere) {
  for (const PixelKernels* kernels : pixel_kernels()) {
    int refused_count = 0;
    for (int level = -2048; level < 2048; ++level) {
      Block quant{};
      quant.fill(static_cast<std::int16_t>(level % 2 == 0 ? 1 : 3));
      Block block{};
      block[0] = static_cast<std::int16_t>(level);
      expect_samples(*kernels, {block}, {0}, quant, refused_count);
      if (HasFatalFailure()) return;
      expect_samples(*kernels, {block, block, block}, {63, 3, 0}, quant, refused_count);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(refused_count, 0) << kernels->name;
  }
}

/// Levels far beyond those of 8-bit pictures, up to where the order of the arithmetic shows; the
/// first row, whose size decides on that, within its bound in half of the cases.
TEST(Pixels, LevelsThatNoEncoderGivesWrapAndSaturateAsVectorsDo) {
  for (const PixelKernels* kernels : pixel_kernels()) {
    SampleRandom random(2, 0, 0, 0);
    int refused_count = 0;
    const int case_count = 8000;
    for (int i = 0; i < case_count; ++i) {
      const std::uint64_t peak = std::uint64_t{1} << (8 + random.below(8));
      const auto last = static_cast<unsigned>(1 + random.below(63));
      Block block = random_block(random, last, std::min<std::uint64_t>(peak, 32767), 8);
      Block quant{};
      for (std::int16_t& value : quant) value = static_cast<std::int16_t>(random.below(256));
      for (std::size_t k = 0; k < 64 && i % 2 == 0; ++k) {
        if (kNaturalOrder.at(k) < 8)
          quant.at(k) = static_cast<std::int16_t>(block.at(k) / 8192 == 0);
      }
      expect_samples(*kernels, {block, block}, {static_cast<std::uint8_t>(last), 63}, quant,
                     refused_count);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(refused_count, case_count / 8) << kernels->name;
    EXPECT_LT(refused_count, case_count * 7 / 8) << kernels->name;
  }
}

// ---- Upsampling ----

class Upsampling : public ::testing::Test {
 protected:
  static constexpr std::size_t kMargin = 32;

  /// Two rows with a margin, and what one set of loops makes of the first `count` samples.
  void fill(SampleRandom& random, std::size_t count) {
    near_.resize(kMargin + count + 2 * kSpareSamples);
    far_.resize(near_.size());
    for (std::size_t i = 0; i < near_.size(); ++i) {
      const bool is_extreme = random.below(4) == 0;
      near_[i] = static_cast<std::uint8_t>(is_extreme ? random.below(2) * 255 : random.next());
      far_[i] = static_cast<std::uint8_t>(is_extreme ? random.below(2) * 255 : random.next());
    }
    to_.assign(2 * count + 2 * kSpareSamples, 0);
  }
  int near(std::size_t i, int by = 0) const {
    return near_[kMargin + i + static_cast<std::size_t>(by)];
  }
  int far(std::size_t i, int by = 0) const {
    return far_[kMargin + i + static_cast<std::size_t>(by)];
  }

  std::vector<std::uint8_t> near_;
  std::vector<std::uint8_t> far_;
  std::vector<std::uint8_t> to_;
};

TEST_F(Upsampling, AcrossWeighsThreeToOne) {
  SampleRandom random(3, 0, 0, 0);
  for (const PixelKernels* kernels : pixel_kernels()) {
    for (std::size_t count = 1; count < 150; ++count) {
      fill(random, count);
      kernels->upsample_across(near_.data() + kMargin, count, to_.data());
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(to_[2 * i], (3 * near(i) + near(i, -1) + 1) / 4) << kernels->name << count;
        ASSERT_EQ(to_[2 * i + 1], (3 * near(i) + near(i, 1) + 2) / 4) << kernels->name << count;
      }
    }
  }
}

TEST_F(Upsampling, BothWaysWeighsNineThreeThreeOne) {
  SampleRandom random(4, 0, 0, 0);
  for (const PixelKernels* kernels : pixel_kernels()) {
    for (std::size_t count = 1; count < 150; ++count) {
      fill(random, count);
      kernels->upsample_both(near_.data() + kMargin, far_.data() + kMargin, count, to_.data());
      const auto column = [&](std::size_t i, int by) { return 3 * near(i, by) + far(i, by); };
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(to_[2 * i], (3 * column(i, 0) + column(i, -1) + 8) / 16) << kernels->name;
        ASSERT_EQ(to_[2 * i + 1], (3 * column(i, 0) + column(i, 1) + 7) / 16) << kernels->name;
      }
    }
  }
}

TEST_F(Upsampling, DownRoundsByTheRow) {
  SampleRandom random(5, 0, 0, 0);
  for (const PixelKernels* kernels : pixel_kernels()) {
    for (std::size_t count = 1; count < 150; ++count) {
      for (const unsigned bias : {1U, 2U}) {
        fill(random, count);
        kernels->upsample_down(near_.data() + kMargin, far_.data() + kMargin, count, bias,
                               to_.data());
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(to_[i], (3 * near(i) + far(i) + static_cast<int>(bias)) / 4) << kernels->name;
        }
      }
    }
  }
}

// ---- Colour ----

std::uint8_t clamped(std::int64_t value) {
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(value, 0, 255));
}

/// JFIF's conversion in 16 bits of fraction, each product rounded as libjpeg's tables have it.
std::array<std::uint8_t, 3> plain_rgb(int luma, int blue, int red) {
  constexpr std::int64_t kHalf = 1 << 15;
  const std::int64_t b = blue - 128;
  const std::int64_t r = red - 128;
  return {clamped(luma + ((91881 * r + kHalf) >> 16)),
          clamped(luma + ((-22554 * b - 46802 * r + kHalf) >> 16)),
          clamped(luma + ((116130 * b + kHalf) >> 16))};
}

TEST(Colour, AllTriplesOfLevels) {
  std::vector<std::uint8_t> luma(256 + kSpareSamples);
  for (std::size_t i = 0; i < 256; ++i) luma[i] = static_cast<std::uint8_t>(i);
  std::vector<std::uint8_t> blues(luma.size());
  std::vector<std::uint8_t> reds(luma.size());
  std::vector<std::uint8_t> rgb(3 * 256);
  std::vector<std::uint8_t> expected(rgb.size());
  for (int blue = 0; blue < 256; ++blue) {
    for (int red = 0; red < 256; ++red) {
      std::fill(blues.begin(), blues.end(), static_cast<std::uint8_t>(blue));
      std::fill(reds.begin(), reds.end(), static_cast<std::uint8_t>(red));
      for (int y = 0; y < 256; ++y) {
        const auto pixel = plain_rgb(y, blue, red);
        std::copy(pixel.begin(), pixel.end(), &expected[3 * static_cast<std::size_t>(y)]);
      }
      for (const PixelKernels* kernels : pixel_kernels()) {
        kernels->ycc_to_rgb(luma.data(), blues.data(), reds.data(), 256, rgb.data());
        ASSERT_EQ(rgb, expected) << kernels->name << " " << blue << " " << red;
      }
    }
  }
}

TEST(Colour, NothingIsWrittenBehindThePixels) {
  SampleRandom random(6, 0, 0, 0);
  std::array<std::vector<std::uint8_t>, 3> planes;
  for (auto& plane : planes) {
    for (std::size_t i = 0; i < 200 + kSpareSamples; ++i) {
      plane.push_back(static_cast<std::uint8_t>(random.next()));
    }
  }
  for (const PixelKernels* kernels : pixel_kernels()) {
    for (std::size_t count = 0; count < 200; ++count) {
      std::vector<std::uint8_t> ycc(3 * count + 100, 0xee);
      std::vector<std::uint8_t> copied = ycc;
      kernels->ycc_to_rgb(planes[0].data(), planes[1].data(), planes[2].data(), count, ycc.data());
      kernels->planes_to_rgb(planes[0].data(), planes[1].data(), planes[2].data(), count,
                             copied.data());
      for (std::size_t i = 0; i < ycc.size(); ++i) {
        if (i >= 3 * count) {
          ASSERT_EQ(ycc[i], 0xee) << kernels->name << count;
          ASSERT_EQ(copied[i], 0xee) << kernels->name << count;
          continue;
        }
        const std::size_t x = i / 3;
        ASSERT_EQ(copied[i], planes.at(i % 3)[x]) << kernels->name << count;
        ASSERT_EQ(ycc[i], plain_rgb(planes[0][x], planes[1][x], planes[2][x]).at(i % 3));
      }
    }
  }
}

}  // namespace
}  // namespace feedrace::jpeg
