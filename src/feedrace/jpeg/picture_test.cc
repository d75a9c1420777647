// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/picture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "feedrace/jpeg/test_jpegs.h"

namespace feedrace::jpeg {
namespace {

using testing::Bytes;
using testing::JpegKind;
using Rgb = std::vector<std::uint8_t>;

/// Plain libjpeg: the accurate transform and smooth chroma, as is its default.
Rgb reference(const Bytes& encoded) {
  jpeg_decompress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&cinfo);
  jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
  jpeg_read_header(&cinfo, TRUE);
  cinfo.out_color_space = JCS_RGB;
  cinfo.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&cinfo);
  Rgb rgb(std::size_t{cinfo.output_width} * 3 * cinfo.output_height);
  while (cinfo.output_scanline < cinfo.output_height) {
    JSAMPROW row = rgb.data() + std::size_t{cinfo.output_scanline} * cinfo.output_width * 3;
    jpeg_read_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_decompress(&cinfo);
  jpeg_destroy_decompress(&cinfo);
  return rgb;
}

/// One decoder for each set of loops, kept from picture to picture.
std::vector<std::unique_ptr<PictureDecoder>> all_decoders() {
  std::vector<std::unique_ptr<PictureDecoder>> decoders;
  const auto entropy = entropy_kernels();
  const auto pixels = pixel_kernels();
  for (std::size_t i = 0; i < std::max(entropy.size(), pixels.size()); ++i) {
    decoders.push_back(std::make_unique<PictureDecoder>(
        *entropy.at(std::min(i, entropy.size() - 1)), *pixels.at(std::min(i, pixels.size() - 1))));
  }
  return decoders;
}

constexpr std::uint8_t kUntouched = 0xee;
constexpr std::size_t kGapBytes = 5;

/// What is wrong with a window, read `step_rows` at a time; empty: nothing.
std::string fault(PictureDecoder& decoder, const Bytes& encoded, const Frame& frame,
                  const Rgb& whole, const Window& window, std::uint32_t step_rows) {
  if (!decoder.begin(encoded, frame, window)) return "does not begin";
  const std::size_t row_bytes = 3 * std::size_t{window.width_px} + kGapBytes;
  Rgb rgb(row_bytes * window.height_px, kUntouched);
  for (std::uint32_t y = 0; y < window.height_px; y += step_rows) {
    const std::uint32_t count = std::min(step_rows, window.height_px - y);
    if (decoder.read_rows(rgb.data() + y * row_bytes, row_bytes, count) != count) {
      return fmt::format("rows from {} on: {}", y, decoder.damage());
    }
  }
  for (std::size_t y = 0; y < window.height_px; ++y) {
    const auto got = rgb.begin() + static_cast<std::ptrdiff_t>(y * row_bytes);
    const auto wanted = whole.begin() + static_cast<std::ptrdiff_t>(
                                            ((window.y_px + y) * frame.width_px + window.x_px) * 3);
    const auto end = got + static_cast<std::ptrdiff_t>(row_bytes - kGapBytes);
    if (!std::equal(got, end, wanted)) return fmt::format("row {} differs", y);
    if (std::any_of(end, end + kGapBytes, [](auto byte) { return byte != kUntouched; })) {
      return fmt::format("row {} is written behind its end", y);
    }
  }
  return "";
}

std::string text_of(const Window& window) {
  return fmt::format("window {},{} {}x{}", window.x_px, window.y_px, window.width_px,
                     window.height_px);
}

using Samplings = std::array<std::array<int, 2>, 3>;

/// 4:4:4, 4:2:2, 4:2:0, 4:4:0, 4:1:1, 4:1:0, and others that ours does.
constexpr std::array kSamplings = {
    Samplings{{{1, 1}, {1, 1}, {1, 1}}}, Samplings{{{2, 1}, {1, 1}, {1, 1}}},
    Samplings{{{2, 2}, {1, 1}, {1, 1}}}, Samplings{{{1, 2}, {1, 1}, {1, 1}}},
    Samplings{{{4, 1}, {1, 1}, {1, 1}}}, Samplings{{{4, 2}, {1, 1}, {1, 1}}},
    Samplings{{{2, 2}, {2, 1}, {1, 2}}}, Samplings{{{1, 1}, {2, 2}, {1, 1}}},
    Samplings{{{1, 1}, {1, 2}, {2, 1}}}, Samplings{{{4, 1}, {2, 1}, {1, 1}}},
};

TEST(PictureDecoder, EveryWindowOfASmallPicture) {
  const auto decoders = all_decoders();
  for (const Samplings& sampling : kSamplings) {
    JpegKind kind;
    kind.width_px = 19;
    kind.height_px = 18;
    kind.sampling = sampling;
    const Bytes encoded = testing::make_jpeg(kind);
    const Rgb whole = reference(encoded);
    Frame frame;
    ASSERT_EQ(read_frame(encoded, frame), nullptr) << kind.text();
    for (std::uint32_t x = 0; x < 19; ++x) {
      for (std::uint32_t end_x = x + 1; end_x <= 19; end_x += x % 2 + 1) {
        for (std::uint32_t y = 0; y < 18; y += 1 + end_x % 3) {
          for (std::uint32_t end_y = y + 1; end_y <= 18; end_y += 1 + x % 4) {
            const Window window{x, y, end_x - x, end_y - y};
            PictureDecoder& decoder = *decoders[(x + y) % decoders.size()];
            ASSERT_EQ(fault(decoder, encoded, frame, whole, window, 1 + x % 3), "")
                << kind.text() << " " << text_of(window);
          }
        }
      }
    }
  }
}

/// Components of 1 to 4 samples across are not mixed as wide ones are; nor is what is one row high.
TEST(PictureDecoder, NarrowAndFlatPictures) {
  const auto decoders = all_decoders();
  for (const Samplings& sampling : kSamplings) {
    for (std::uint32_t width_px = 1; width_px <= 18; ++width_px) {
      for (const std::uint32_t height_px : {1U, 2U, 3U, 8U, 9U, 17U}) {
        JpegKind kind;
        kind.width_px = width_px;
        kind.height_px = height_px;
        kind.sampling = sampling;
        kind.content = testing::Content::kNoise;
        const Bytes encoded = testing::make_jpeg(kind);
        const Rgb whole = reference(encoded);
        Frame frame;
        ASSERT_EQ(read_frame(encoded, frame), nullptr);
        for (const auto& decoder : decoders) {
          const Window all{0, 0, width_px, height_px};
          ASSERT_EQ(fault(*decoder, encoded, frame, whole, all, height_px), "") << kind.text();
          for (std::uint32_t x = 0; x < width_px; ++x) {
            const Window column{x, height_px / 2, 1, height_px - height_px / 2};
            ASSERT_EQ(fault(*decoder, encoded, frame, whole, column, 1), "")
                << kind.text() << " " << text_of(column);
          }
        }
      }
    }
  }
}

/// Windows of a few rows of MCUs, so that the two that are kept change places.
TEST(PictureDecoder, RandomKindsAndWindows) {
  const auto decoders = all_decoders();
  SampleRandom random(1, 0, 0, 0);
  int done_count = 0;
  for (int i = 0; i < 500; ++i) {
    const JpegKind kind = testing::random_kind(random, 150);
    const Bytes encoded = testing::make_jpeg(kind);
    Frame frame;
    if (read_frame(encoded, frame) != nullptr) continue;
    ++done_count;
    const Rgb whole = reference(encoded);
    for (int k = 0; k < 12; ++k) {
      const auto x = static_cast<std::uint32_t>(random.below(kind.width_px));
      const auto y = static_cast<std::uint32_t>(random.below(kind.height_px));
      Window window{x, y, static_cast<std::uint32_t>(1 + random.below(kind.width_px - x)),
                    static_cast<std::uint32_t>(1 + random.below(kind.height_px - y))};
      if (k == 0) window = {0, 0, kind.width_px, kind.height_px};
      const auto step_rows = static_cast<std::uint32_t>(1 + random.below(window.height_px));
      PictureDecoder& decoder = *decoders[random.below(decoders.size())];
      ASSERT_EQ(fault(decoder, encoded, frame, whole, window, step_rows), "")
          << kind.text() << " " << text_of(window);
    }
  }
  EXPECT_GT(done_count, 250);
}

TEST(PictureDecoder, RowsAboveDamageAreThoseOfTheSoundPicture) {
  JpegKind kind;
  kind.width_px = 60;
  kind.height_px = 90;
  kind.sampling[0] = {2, 2};
  const Bytes sound = testing::make_jpeg(kind);
  const Rgb whole = reference(sound);
  Frame frame;
  ASSERT_EQ(read_frame(sound, frame), nullptr);
  for (const auto& decoder : all_decoders()) {
    std::uint32_t most_rows = 0;
    for (std::size_t size = frame.scan_at; size < sound.size(); size += 7) {
      const Bytes cut(sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_TRUE(decoder->begin(cut, frame, {0, 0, 60, 90}));
      Rgb rgb(whole.size(), kUntouched);
      const std::uint32_t rows = decoder->read_rows(rgb.data(), 180, 90);
      ASSERT_LT(rows, 90U);
      ASSERT_NE(decoder->damage(), nullptr);
      ASSERT_TRUE(std::equal(rgb.begin(), rgb.begin() + rows * 180, whole.begin())) << size;
      ASSERT_GE(rows, most_rows) << size;
      most_rows = rows;
    }
    EXPECT_GT(most_rows, 70U);
  }
}

TEST(PictureDecoder, KeepsAboutTheMemoryThatItForetells) {
  for (const std::uint32_t width_px : {64U, 1000U, 6000U}) {
    JpegKind kind;
    kind.width_px = width_px;
    kind.height_px = 40;
    kind.sampling[0] = {2, 2};
    const Bytes encoded = testing::make_jpeg(kind);
    Frame frame;
    ASSERT_EQ(read_frame(encoded, frame), nullptr);
    const Window window{0, 0, width_px, 40};
    const auto decoder = PictureDecoder::make();
    ASSERT_TRUE(decoder->begin(encoded, frame, window));
    // Beside it the tables, and what an instance has from the beginning.
    const std::uint64_t fixed_bytes = std::uint64_t{128} << 10;
    EXPECT_LE(decoder->scratch_bytes(), PictureDecoder::memory_bytes(frame, window) + fixed_bytes);
  }
}

}  // namespace
}  // namespace feedrace::jpeg
