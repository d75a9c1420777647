// SPDX-License-Identifier: Apache-2.0
// Upsampling of chroma and conversion to RGB. Included once for each instruction set, behind
// idct-inl.h, within its namespace.

constexpr std::size_t kSamples = hn::MaxLanes(kBytes);

/// Samples as 16-bit numbers; `to_bytes` brings them back in order.
struct Levels {
  Shorts lower, upper;
  HWY_INLINE Levels(Shorts a, Shorts b) : lower(a), upper(b) {}
  HWY_INLINE explicit Levels(Bytes samples)
      : lower(hn::BitCast(kShorts, hn::InterleaveLower(kBytes, samples, hn::Zero(kBytes)))),
        upper(hn::BitCast(kShorts, hn::InterleaveUpper(kBytes, samples, hn::Zero(kBytes)))) {}
};

HWY_INLINE Levels load_levels(const std::uint8_t* from) { return Levels(hn::LoadU(kBytes, from)); }

HWY_INLINE Levels add(Levels a, Levels b) {
  return {hn::Add(a.lower, b.lower), hn::Add(a.upper, b.upper)};
}

HWY_INLINE Levels add(Levels a, int constant) {
  const Shorts b = hn::Set(kShorts, static_cast<std::int16_t>(constant));
  return {hn::Add(a.lower, b), hn::Add(a.upper, b)};
}

HWY_INLINE Levels subtract(Levels a, Levels b) {
  return {hn::Sub(a.lower, b.lower), hn::Sub(a.upper, b.upper)};
}

HWY_INLINE Levels triple(Levels a) { return add(add(a, a), a); }

/// a * factor / 2^15, rounded.
HWY_INLINE Levels scale(Levels a, int factor) {
  const Shorts f = hn::Set(kShorts, static_cast<std::int16_t>(factor));
  return {hn::MulFixedPoint15(a.lower, f), hn::MulFixedPoint15(a.upper, f)};
}

template <int kBits>
HWY_INLINE Levels shift(Levels a) {
  return {hn::ShiftRight<kBits>(a.lower), hn::ShiftRight<kBits>(a.upper)};
}

// ---- Upsampling ----

/// Writes left[0], right[0], left[1], ...; both below 256.
HWY_INLINE void store_alternating(Levels left, Levels right, std::uint8_t* to) {
  const Bytes lower = hn::BitCast(kBytes, hn::Or(left.lower, hn::ShiftLeft<8>(right.lower)));
  const Bytes upper = hn::BitCast(kBytes, hn::Or(left.upper, hn::ShiftLeft<8>(right.upper)));
#if HWY_MAX_BYTES >= 32
  // Lower and upper hold alternate runs of 16 bytes.
  hn::StoreU(hn::ConcatLowerLower(kBytes, upper, lower), kBytes, to);
  hn::StoreU(hn::ConcatUpperUpper(kBytes, upper, lower), kBytes, to + kSamples);
#else
  hn::StoreU(lower, kBytes, to);
  hn::StoreU(upper, kBytes, to + kSamples);
#endif
}

void upsample_across(const std::uint8_t* near, std::size_t count, std::uint8_t* to) {
  for (std::size_t i = 0; i < count; i += kSamples) {
    const Levels own = triple(load_levels(near + i));
    const Levels left = add(add(own, load_levels(near + i - 1)), 1);
    const Levels right = add(add(own, load_levels(near + i + 1)), 2);
    store_alternating(shift<2>(left), shift<2>(right), to + 2 * i);
  }
}

HWY_INLINE Levels column_sums(const std::uint8_t* near, const std::uint8_t* far) {
  return add(triple(load_levels(near)), load_levels(far));
}

void upsample_both(const std::uint8_t* near, const std::uint8_t* far, std::size_t count,
                   std::uint8_t* to) {
  for (std::size_t i = 0; i < count; i += kSamples) {
    const Levels own = triple(column_sums(near + i, far + i));
    const Levels left = add(add(own, column_sums(near + i - 1, far + i - 1)), 8);
    const Levels right = add(add(own, column_sums(near + i + 1, far + i + 1)), 7);
    store_alternating(shift<4>(left), shift<4>(right), to + 2 * i);
  }
}

void upsample_down(const std::uint8_t* near, const std::uint8_t* far, std::size_t count,
                   unsigned bias, std::uint8_t* to) {
  for (std::size_t i = 0; i < count; i += kSamples) {
    const Levels sum = shift<2>(add(column_sums(near + i, far + i), static_cast<int>(bias)));
    hn::StoreU(to_bytes(sum.lower, sum.upper), kBytes, to + i);
  }
}

// ---- Colour ----

// Constants of JFIF's conversion as libjpeg rounds them, times 2^16: 1.402 = 1 + 26345 / 2^16;
// 1.772 = 2 - 14942 / 2^16; 0.34414, 0.71414. Where 15 bits serve, all 256 levels were tried.
constexpr int kRedOfRed = 13173;    // / 2^15, beside 1.
constexpr int kBlueOfBlue = -7471;  // / 2^15, beside 2.
constexpr int kGreenOfBlue = -22554;
constexpr int kGreenOfRed = 65536 - 46802;  // Beside -1.

HWY_INLINE Shorts green_term(Shorts blue, Shorts red) {
  const Ints half = hn::Set(kInts, 1 << 15);
  const RowPair pair(blue, red);
  const Halves sum = pair.times(kGreenOfBlue, kGreenOfRed);
  return descale<16>({hn::Add(sum.lower, half), hn::Add(sum.upper, half)});
}

struct Rgb {
  Bytes red, green, blue;
};

HWY_INLINE Rgb convert(const std::uint8_t* luma, const std::uint8_t* blue_difference,
                       const std::uint8_t* red_difference) {
  const Levels y = load_levels(luma);
  const Levels blue = add(load_levels(blue_difference), -128);
  const Levels red = add(load_levels(red_difference), -128);
  const Levels r = add(add(y, red), scale(red, kRedOfRed));
  const Levels b = add(add(y, add(blue, blue)), scale(blue, kBlueOfBlue));
  const Levels g =
      add(subtract(y, red), {green_term(blue.lower, red.lower), green_term(blue.upper, red.upper)});
  return {to_bytes(r.lower, r.upper), to_bytes(g.lower, g.upper), to_bytes(b.lower, b.upper)};
}

/// `read` gives the pixels from an index on.
template <class Read>
HWY_INLINE void write_rgb(std::size_t count, std::uint8_t* rgb, Read read) {
  std::size_t i = 0;
  for (; i + kSamples <= count; i += kSamples) {
    const Rgb pixels = read(i);
    hn::StoreInterleaved3(pixels.red, pixels.green, pixels.blue, kBytes, rgb + 3 * i);
  }
  if (i == count) return;
  std::uint8_t rest[3 * kSamples];
  const Rgb pixels = read(i);
  hn::StoreInterleaved3(pixels.red, pixels.green, pixels.blue, kBytes, rest);
  std::memcpy(rgb + 3 * i, rest, 3 * (count - i));
}

void ycc_to_rgb(const std::uint8_t* luma, const std::uint8_t* blue, const std::uint8_t* red,
                std::size_t count, std::uint8_t* rgb) {
  write_rgb(count, rgb,
            [=](std::size_t i) HWY_ATTR { return convert(luma + i, blue + i, red + i); });
}

void planes_to_rgb(const std::uint8_t* first, const std::uint8_t* second, const std::uint8_t* third,
                   std::size_t count, std::uint8_t* rgb) {
  write_rgb(count, rgb, [=](std::size_t i) HWY_ATTR {
    return Rgb{hn::LoadU(kBytes, first + i), hn::LoadU(kBytes, second + i),
               hn::LoadU(kBytes, third + i)};
  });
}
