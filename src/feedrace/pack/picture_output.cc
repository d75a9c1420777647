// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/picture_output.h"

#include <lz4frame.h>
#include <stdlib.h>
#include <zstd.h>

#include <fmt/format.h>
#include <spng.h>
#include <webp/encode.h>

namespace feedrace::pack {
namespace {

/// As numpy aligns the numbers.
constexpr std::size_t kNpyAlignment = 64;
constexpr std::size_t kNpyPreludeBytes = 10;

// Photos hardly shrink by LZ4: more effort brings little, but unpacking costs the same.
constexpr int kLz4Level = 9;
// Behind 3, photos shrink by less than 1 % more at twice the time.
constexpr int kZstdLevel = 3;

Failure no_memory(const char* what) {
  return {ErrorCode::kIo, fmt::format("writing {}: no memory; use fewer threads", what)};
}

struct FreeSpng {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};

}  // namespace

std::string npy_header(std::uint32_t width_px, std::uint32_t height_px) {
  std::string dictionary = fmt::format(
      "{{'descr': '|u1', 'fortran_order': False, 'shape': ({}, {}, 3), }}", height_px, width_px);
  while ((kNpyPreludeBytes + dictionary.size() + 1) % kNpyAlignment != 0) dictionary += ' ';
  dictionary += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dictionary.size() & 0xff);
  header += static_cast<char>(dictionary.size() >> 8U);
  return header + dictionary;
}

void NpyOutput::FreeLz4::operator()(LZ4F_cctx_s* context) const noexcept {
  LZ4F_freeCompressionContext(context);
}

void NpyOutput::FreeZstd::operator()(ZSTD_CCtx_s* context) const noexcept {
  ZSTD_freeCCtx(context);
}

NpyOutput::NpyOutput(RawCompression compression) : compression_(compression) {}
NpyOutput::~NpyOutput() = default;

const char* NpyOutput::field() const noexcept {
  switch (compression_) {
    case RawCompression::kLz4:
      return "npy.lz4";
    case RawCompression::kZstd:
      return "npy.zst";
    default:
      return "npy";
  }
}

Result<std::string> NpyOutput::write(std::span<const std::uint8_t> rgb, std::uint32_t width_px,
                                     std::uint32_t height_px) {
  const std::string header = npy_header(width_px, height_px);
  if (compression_ == RawCompression::kLz4) return write_lz4(header, rgb);
  if (compression_ == RawCompression::kZstd) return write_zstd(header, rgb);
  std::string array;
  array.reserve(header.size() + rgb.size());
  return array.append(header).append(reinterpret_cast<const char*>(rgb.data()), rgb.size());
}

Result<std::string> NpyOutput::write_lz4(const std::string& header,
                                         std::span<const std::uint8_t> rgb) {
  if (!lz4_) {
    LZ4F_cctx* made = nullptr;
    if (LZ4F_isError(LZ4F_createCompressionContext(&made, LZ4F_VERSION)) != 0) {
      return no_memory("LZ4");
    }
    lz4_.reset(made);
  }
  LZ4F_preferences_t preferences{};
  // Small blocks with sums of their own: a reader unpacks and checks what a crop needs.
  preferences.frameInfo.blockSizeID = LZ4F_max64KB;
  preferences.frameInfo.blockMode = LZ4F_blockIndependent;
  preferences.frameInfo.blockChecksumFlag = LZ4F_blockChecksumEnabled;
  preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  preferences.frameInfo.contentSize = header.size() + rgb.size();
  preferences.compressionLevel = kLz4Level;
  std::string frame(LZ4F_HEADER_SIZE_MAX + LZ4F_compressBound(header.size(), &preferences) +
                        LZ4F_compressBound(rgb.size(), &preferences),
                    '\0');
  std::size_t at = 0;
  bool is_good = true;
  const auto add = [&](std::size_t result) {
    is_good = is_good && LZ4F_isError(result) == 0;
    if (is_good) at += result;
  };
  const auto room = [&] { return frame.size() - at; };
  add(LZ4F_compressBegin(lz4_.get(), frame.data(), room(), &preferences));
  add(LZ4F_compressUpdate(lz4_.get(), frame.data() + at, room(), header.data(), header.size(),
                          nullptr));
  add(LZ4F_flush(lz4_.get(), frame.data() + at, room(), nullptr));
  add(LZ4F_compressUpdate(lz4_.get(), frame.data() + at, room(), rgb.data(), rgb.size(), nullptr));
  add(LZ4F_compressEnd(lz4_.get(), frame.data() + at, room(), nullptr));
  if (!is_good) return no_memory("LZ4");
  frame.resize(at);
  return frame;
}

Result<std::string> NpyOutput::write_zstd(const std::string& header,
                                          std::span<const std::uint8_t> rgb) {
  if (!zstd_) zstd_.reset(ZSTD_createCCtx());
  if (!zstd_) return no_memory("Zstandard");
  const std::size_t size = header.size() + rgb.size();
  ZSTD_CCtx_reset(zstd_.get(), ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_compressionLevel, kZstdLevel);
  ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setPledgedSrcSize(zstd_.get(), size);
  // The flush behind the header adds a block of its own.
  std::string frame(ZSTD_compressBound(header.size()) + ZSTD_compressBound(rgb.size()), '\0');
  ZSTD_outBuffer out{frame.data(), frame.size(), 0};
  ZSTD_inBuffer front{header.data(), header.size(), 0};
  ZSTD_inBuffer pixels{rgb.data(), rgb.size(), 0};
  const bool is_good = ZSTD_compressStream2(zstd_.get(), &out, &front, ZSTD_e_flush) == 0 &&
                       ZSTD_compressStream2(zstd_.get(), &out, &pixels, ZSTD_e_end) == 0;
  if (!is_good) return no_memory("Zstandard");
  frame.resize(out.pos);
  return frame;
}

Result<std::string> write_png(std::span<const std::uint8_t> pixels, std::uint32_t width_px,
                              std::uint32_t height_px, std::uint32_t channel_count) {
  const std::unique_ptr<spng_ctx, FreeSpng> context(spng_ctx_new(SPNG_CTX_ENCODER));
  if (!context) return no_memory("PNG");
  spng_ihdr header{};
  header.width = width_px;
  header.height = height_px;
  header.bit_depth = 8;
  header.color_type = channel_count == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  int error = spng_set_ihdr(context.get(), &header);
  if (error == 0) {
    error = spng_encode_image(context.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG,
                              SPNG_ENCODE_FINALIZE);
  }
  std::size_t size = 0;
  void* made = error == 0 ? spng_get_png_buffer(context.get(), &size, &error) : nullptr;
  if (made == nullptr) return no_memory("PNG");
  std::string png(static_cast<const char*>(made), size);
  free(made);
  return png;
}

Result<std::string> write_webp(std::span<const std::uint8_t> rgb, std::uint32_t width_px,
                               std::uint32_t height_px, bool is_lossless, int quality) {
  if (width_px > WEBP_MAX_DIMENSION || height_px > WEBP_MAX_DIMENSION) {
    return Failure{ErrorCode::kUnsupported,
                   fmt::format("encoding WebP: {} x {} pixels, and a side has at most {}; resize "
                               "to fewer, or encode as JPEG",
                               width_px, height_px, WEBP_MAX_DIMENSION)};
  }
  const int width = static_cast<int>(width_px);
  const int height = static_cast<int>(height_px);
  std::uint8_t* made = nullptr;
  const std::size_t size =
      is_lossless
          ? WebPEncodeLosslessRGB(rgb.data(), width, height, width * 3, &made)
          : WebPEncodeRGB(rgb.data(), width, height, width * 3, static_cast<float>(quality), &made);
  if (size == 0) return no_memory("WebP");
  std::string webp(reinterpret_cast<const char*>(made), size);
  WebPFree(made);
  return webp;
}

}  // namespace feedrace::pack
