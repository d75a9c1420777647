// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lz4frame.h>
#include <stdlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <jpeglib.h>
#include <spng.h>
#include <webp/encode.h>

#include "feedrace/decoder.h"
#include "feedrace/random.h"
#include "feedrace/testing/npy.h"

/// Made-up pictures for tests and benchmarks of the decoders.
namespace feedrace::decode::testing {

using Bytes = std::vector<std::byte>;

/// Pixels [height_px, width_px, channel_count].
struct Pixels {
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
  std::uint32_t channel_count = 3;
  std::vector<std::uint8_t> values;

  std::size_t row_bytes() const { return std::size_t{width_px} * channel_count; }
};

/// Slopes with blocks of noise in them: every channel has low and high frequencies, so that a wrong
/// neighbour changes pixels.
inline Pixels make_pixels(std::uint32_t width_px, std::uint32_t height_px,
                          std::uint32_t channel_count = 3, std::uint64_t seed = 1) {
  SampleRandom random(seed, 0, 0, 0);
  Pixels pixels{width_px, height_px, channel_count, {}};
  pixels.values.resize(pixels.row_bytes() * height_px);
  for (std::size_t i = 0; i < pixels.values.size(); ++i) {
    const std::size_t pixel = i / channel_count;
    const std::size_t channel = i % channel_count;
    const std::size_t x = pixel % width_px;
    const std::size_t y = pixel / width_px;
    const bool noisy = ((x / 16 + y / 16) & 1U) != 0;
    const std::size_t slope = x * (3 + channel) + y * (7 - channel);
    const std::uint32_t noise = noisy ? random.next() & 0x7fU : random.next() & 0x07U;
    pixels.values[i] = static_cast<std::uint8_t>(slope + noise);
  }
  return pixels;
}

struct JpegOptions {
  int quality = 90;
  std::array<int, 2> luma_sampling = {2, 2};    ///< Of the first component; across, down.
  std::array<int, 2> chroma_sampling = {1, 1};  ///< Of the others.
  bool progressive = false;
  bool arithmetic = false;
  bool separate_scans = false;
  unsigned restart_blocks = 0;
  J_COLOR_SPACE stored_as = JCS_YCbCr;  ///< For one or four channels chosen by the caller.
};

/// `pixels` has 1 (stored as JCS_GRAYSCALE), 3, or 4 channels (JCS_CMYK, JCS_YCCK).
inline Bytes make_jpeg(const Pixels& pixels, const JpegOptions& options = {}) {
  jpeg_compress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_compress(&cinfo);
  unsigned char* out = nullptr;
  unsigned long out_bytes = 0;
  jpeg_mem_dest(&cinfo, &out, &out_bytes);
  cinfo.image_width = pixels.width_px;
  cinfo.image_height = pixels.height_px;
  cinfo.input_components = static_cast<int>(pixels.channel_count);
  cinfo.in_color_space = pixels.channel_count == 1   ? JCS_GRAYSCALE
                         : pixels.channel_count == 3 ? JCS_RGB
                                                     : JCS_CMYK;
  jpeg_set_defaults(&cinfo);
  jpeg_set_colorspace(&cinfo, options.stored_as);
  jpeg_set_quality(&cinfo, options.quality, TRUE);
  for (int i = 0; i < cinfo.num_components; ++i) {
    const bool fine = i == 0 || i == 3;
    const std::array<int, 2>& sampling = fine ? options.luma_sampling : options.chroma_sampling;
    cinfo.comp_info[i].h_samp_factor = sampling[0];
    cinfo.comp_info[i].v_samp_factor = sampling[1];
  }
  std::array<jpeg_scan_info, 3> scans{};
  if (options.progressive) jpeg_simple_progression(&cinfo);
  if (options.separate_scans) {
    for (int i = 0; i < 3; ++i) scans[static_cast<std::size_t>(i)] = {1, {i}, 0, 63, 0, 0};
    cinfo.scan_info = scans.data();
    cinfo.num_scans = 3;
  }
  cinfo.arith_code = options.arithmetic ? TRUE : FALSE;
  cinfo.restart_interval = options.restart_blocks;
  jpeg_start_compress(&cinfo, TRUE);
  while (cinfo.next_scanline < cinfo.image_height) {
    auto* row =
        const_cast<JSAMPROW>(pixels.values.data() + cinfo.next_scanline * pixels.row_bytes());
    jpeg_write_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_compress(&cinfo);
  const auto* begin = reinterpret_cast<const std::byte*>(out);
  Bytes encoded(begin, begin + out_bytes);
  free(out);
  jpeg_destroy_compress(&cinfo);
  return encoded;
}

/// Puts an EXIF block with nothing but an orientation behind the first two bytes.
inline Bytes with_orientation(const Bytes& jpeg, std::uint8_t orientation) {
  const std::array<std::uint8_t, 36> app1 = {
      0xff, 0xe1, 0,    34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M',         0, '*', 0, 0, 0, 8,
      0,    1,    0x01, 0x12, 0,   3,   0,   0,   0, 1, 0,   orientation, 0, 0,   0, 0, 0, 0};
  Bytes out(jpeg.begin(), jpeg.begin() + 2);
  for (const std::uint8_t value : app1) out.push_back(std::byte{value});
  out.insert(out.end(), jpeg.begin() + 2, jpeg.end());
  return out;
}

/// `packed` holds the rows as PNG packs them.
inline Bytes make_png(std::uint32_t width_px, std::uint32_t height_px, std::uint8_t bit_depth,
                      std::uint8_t colour_type, const std::vector<std::uint8_t>& packed,
                      std::uint32_t palette_colours = 0, bool interlaced = false) {
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = width_px;
  header.height = height_px;
  header.bit_depth = bit_depth;
  header.color_type = colour_type;
  header.interlace_method = interlaced ? SPNG_INTERLACE_ADAM7 : SPNG_INTERLACE_NONE;
  int error = spng_set_ihdr(context, &header);
  spng_plte palette{};
  palette.n_entries = palette_colours;
  for (std::uint32_t i = 0; i < palette_colours; ++i) {
    palette.entries[i] = {static_cast<std::uint8_t>(i * 7), static_cast<std::uint8_t>(255 - i),
                          static_cast<std::uint8_t>(i * 31), 0};
  }
  if (palette_colours > 0 && error == 0) error = spng_set_plte(context, &palette);
  if (error == 0) {
    error = spng_encode_image(context, packed.data(), packed.size(), SPNG_FMT_RAW,
                              SPNG_ENCODE_FINALIZE);
  }
  std::size_t size = 0;
  void* out = error == 0 ? spng_get_png_buffer(context, &size, &error) : nullptr;
  Bytes encoded;
  if (out != nullptr) {
    const auto* begin = static_cast<const std::byte*>(out);
    encoded.assign(begin, begin + size);
  }
  free(out);
  spng_ctx_free(context);
  if (encoded.empty()) throw std::runtime_error(spng_strerror(error));
  return encoded;
}

inline Bytes make_png(const Pixels& pixels) {
  const std::array<std::uint8_t, 5> types = {0, 0, 4, 2, 6};
  return make_png(pixels.width_px, pixels.height_px, 8, types.at(pixels.channel_count),
                  pixels.values);
}

/// `pixels` has 3 or 4 channels.
inline Bytes make_webp(const Pixels& pixels, bool lossless = false) {
  std::uint8_t* out = nullptr;
  std::size_t size = 0;
  const auto width = static_cast<int>(pixels.width_px);
  const auto height = static_cast<int>(pixels.height_px);
  const auto stride = static_cast<int>(pixels.row_bytes());
  const std::uint8_t* values = pixels.values.data();
  if (pixels.channel_count == 3) {
    size = lossless ? WebPEncodeLosslessRGB(values, width, height, stride, &out)
                    : WebPEncodeRGB(values, width, height, stride, 80, &out);
  } else {
    size = lossless ? WebPEncodeLosslessRGBA(values, width, height, stride, &out)
                    : WebPEncodeRGBA(values, width, height, stride, 80, &out);
  }
  const auto* begin = reinterpret_cast<const std::byte*>(out);
  Bytes encoded(begin, begin + size);
  WebPFree(out);
  return encoded;
}

inline Bytes bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// As numpy.save writes it; one channel as [H, W].
inline Bytes make_npy(const Pixels& pixels) {
  const std::string_view values(reinterpret_cast<const char*>(pixels.values.data()),
                                pixels.values.size());
  const std::string shape =
      fmt::format("{}, {}{}", pixels.height_px, pixels.width_px,
                  pixels.channel_count == 1 ? "" : fmt::format(", {}", pixels.channel_count));
  return bytes_of(feedrace::testing::npy("|u1", shape, values));
}

/// As one frame of the lz4 program: blocks that lean on each other, a checksum, the size.
inline Bytes squeeze_lz4(const Bytes& content) {
  LZ4F_preferences_t preferences{};
  preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  preferences.frameInfo.contentSize = content.size();
  Bytes frame(LZ4F_compressFrameBound(content.size(), &preferences));
  frame.resize(
      LZ4F_compressFrame(frame.data(), frame.size(), content.data(), content.size(), &preferences));
  return frame;
}

/// As one frame of the zstd program, with a checksum.
inline Bytes squeeze_zstd(const Bytes& content) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  Bytes frame(ZSTD_compressBound(content.size()));
  frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), content.data(), content.size()));
  ZSTD_freeCCtx(context);
  return frame;
}

/// The pixels of `region` cut out of `whole` [height_px, width_px, 3].
inline std::vector<std::uint8_t> cut(const std::vector<std::uint8_t>& whole, std::uint32_t width_px,
                                     const Region& region) {
  const std::size_t row_bytes = std::size_t{region.width_px} * 3;
  std::vector<std::uint8_t> out(row_bytes * region.height_px);
  for (std::size_t y = 0; y < region.height_px; ++y) {
    const std::size_t from = ((region.y_px + y) * width_px + region.x_px) * 3;
    std::memcpy(out.data() + y * row_bytes, whole.data() + from, row_bytes);
  }
  return out;
}

/// A region of any size and place inside, edges as likely as any.
inline Region random_region(SampleRandom& random, std::uint32_t width_px, std::uint32_t height_px) {
  const auto span = [&](std::uint32_t limit) {
    auto first = static_cast<std::uint32_t>(random.below(limit));
    auto last = static_cast<std::uint32_t>(random.below(limit));
    if (first > last) std::swap(first, last);
    return std::array<std::uint32_t, 2>{first, last - first + 1};
  };
  const auto across = span(width_px);
  const auto down = span(height_px);
  return {across[0], down[0], across[1], down[1]};
}

/// Pixels of a region by a decoder's own interface, or the failure; rows in calls of `step_rows`.
inline Result<std::vector<std::uint8_t>> decode_region(Decoder& decoder,
                                                       std::span<const std::byte> encoded,
                                                       const Region& region,
                                                       std::uint32_t step_rows = 1U << 30,
                                                       const DecodeLimits& limits = {}) {
  Result<void> begun = decoder.begin(encoded, region, limits);
  if (!begun) return begun.error();
  const std::size_t row_bytes = std::size_t{region.width_px} * 3;
  std::vector<std::uint8_t> out(row_bytes * region.height_px);
  for (std::uint32_t y = 0; y < region.height_px;) {
    const std::uint32_t count = std::min(step_rows, region.height_px - y);
    Result<void> read = decoder.read_rows(out.data() + y * row_bytes, row_bytes, count);
    if (!read) return read.error();
    y += count;
  }
  return out;
}

}  // namespace feedrace::decode::testing
