// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/webp_decoder.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <webp/decode.h>

#include "feedrace/decode/bytes.h"
#include "feedrace/decode/messages.h"

namespace feedrace::decode {
namespace {

const std::uint8_t* data_of(std::span<const std::byte> bytes) noexcept {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

const char* status_text(VP8StatusCode status) noexcept {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "no memory";
    case VP8_STATUS_BITSTREAM_ERROR:
      return "a bad bitstream";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "an unsupported feature";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "not enough data";
    default:
      return "libwebp gave up";
  }
}

Failure webp_failure(VP8StatusCode status, std::size_t encoded_bytes) {
  if (status == VP8_STATUS_OUT_OF_MEMORY) {
    return {ErrorCode::kIo, "WebP data: no memory; use fewer decode threads"};
  }
  if (status == VP8_STATUS_UNSUPPORTED_FEATURE) {
    return unsupported("a WebP picture with an unsupported feature");
  }
  if (status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED) {
    return corrupt(fmt::format("truncated WebP data: the picture is incomplete after {} bytes",
                               encoded_bytes));
  }
  return corrupt(
      fmt::format("corrupt WebP data: {} in {} bytes", status_text(status), encoded_bytes));
}

constexpr std::uint32_t kMargin = 2;

/// libwebp smooths chroma at the edges of a crop as if the picture ended there, and needs an even
/// corner: one chroma sample more on each side, from an even pixel on.
Region window_around(const Region& region, std::uint32_t width_px, std::uint32_t height_px) {
  const auto first = [](std::uint32_t at) { return (at - std::min(at, kMargin)) & ~1U; };
  const auto end = [](std::uint32_t at, std::uint32_t limit) {
    return std::min(limit, (at + kMargin + 1) & ~1U);
  };
  Region window{first(region.x_px), first(region.y_px), 0, 0};
  window.width_px = end(region.x_px + region.width_px, width_px) - window.x_px;
  window.height_px = end(region.y_px + region.height_px, height_px) - window.y_px;
  return window;
}

/// An upper bound of what libwebp and we hold: a lossless picture is decoded whole, at 4 bytes a
/// pixel; a lossy one a few rows at a time, with its alpha plane whole.
std::uint64_t memory_bytes(std::uint64_t picture_px, std::uint64_t window_px, bool lossless,
                           bool has_alpha) noexcept {
  return window_px * 3 + (lossless ? picture_px * 5 : has_alpha ? picture_px * 2 : 0);
}

}  // namespace

bool WebpDecoder::accepts(std::span<const std::byte> encoded) const noexcept {
  return holds(encoded, 0, "RIFF") && holds(encoded, 8, "WEBP");
}

Result<WebpDecoder::Picture> WebpDecoder::open(std::span<const std::byte> encoded,
                                               const DecodeLimits& limits) {
  region_ = {};
  next_row_ = 0;
  Result<WebpContainer> container = read_webp_container(encoded);
  if (!container) return container.error();
  WebPBitstreamFeatures features;
  const std::span<const std::byte> bitstream = container->bitstream;
  const VP8StatusCode status = WebPGetFeatures(data_of(bitstream), bitstream.size(), &features);
  if (status != VP8_STATUS_OK) return webp_failure(status, encoded.size());
  Picture picture{*container, static_cast<std::uint32_t>(features.width),
                  static_cast<std::uint32_t>(features.height), features.has_alpha != 0,
                  features.format != 1};
  Result<void> fits = check_size("WebP", picture.width_px, picture.height_px, limits);
  if (!fits) return fits.error();
  const bool whole_frame = container->frame_fills_canvas &&
                           picture.width_px == container->canvas_width_px &&
                           picture.height_px == container->canvas_height_px;
  if (container->animated && !whole_frame) {
    return unsupported("an animated WebP whose first frame does not fill the canvas");
  }
  return picture;
}

Result<ImageInfo> WebpDecoder::probe(std::span<const std::byte> encoded,
                                     const DecodeLimits& limits) {
  Result<Picture> picture = open(encoded, limits);
  if (!picture) return picture.error();
  return ImageInfo{picture->width_px, picture->height_px, picture->has_alpha ? 4U : 3U,
                   picture->container.orientation, "webp"};
}

Result<void> WebpDecoder::begin(std::span<const std::byte> encoded, const Region& region,
                                const DecodeLimits& limits) {
  Result<Picture> picture = open(encoded, limits);
  if (!picture) return picture.error();
  window_ = window_around(region, picture->width_px, picture->height_px);
  const std::uint64_t window_px = std::uint64_t{window_.width_px} * window_.height_px;
  const std::uint64_t needed = memory_bytes(std::uint64_t{picture->width_px} * picture->height_px,
                                            window_px, picture->lossless, picture->has_alpha);
  if (needed > limits.max_memory_bytes) return needs_too_much_memory("WebP", needed, limits);
  if (!pixels_.reserve(window_px * 3)) return out_of_memory("WebP", needed);
  Result<void> decoded = decode(*picture, encoded.size());
  if (decoded) region_ = region;
  return decoded;
}

Result<void> WebpDecoder::decode(const Picture& picture, std::size_t encoded_bytes) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) {
    return unsupported("a WebP picture, for which the installed libwebp is of another version");
  }
  config.options.use_cropping = 1;
  config.options.crop_left = static_cast<int>(window_.x_px);
  config.options.crop_top = static_cast<int>(window_.y_px);
  config.options.crop_width = static_cast<int>(window_.width_px);
  config.options.crop_height = static_cast<int>(window_.height_px);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = pixels_.data();
  config.output.u.RGBA.stride = static_cast<int>(window_.width_px * 3);
  config.output.u.RGBA.size = std::size_t{window_.width_px} * window_.height_px * 3;
  const std::span<const std::byte> bitstream = picture.container.bitstream;
  const VP8StatusCode status = WebPDecode(data_of(bitstream), bitstream.size(), &config);
  return status == VP8_STATUS_OK ? Result<void>{}
                                 : Result<void>{webp_failure(status, encoded_bytes)};
}

Result<void> WebpDecoder::read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                                    std::uint32_t row_count) {
  const std::uint32_t rows_left = region_.height_px - next_row_;
  if (row_count > rows_left) {
    return Failure{ErrorCode::kInvalidArgument,
                   fmt::format("WebP decoder: {} rows asked for, {} left; call begin() first",
                               row_count, rows_left)};
  }
  const std::size_t window_row_bytes = std::size_t{window_.width_px} * 3;
  const std::uint8_t* from = pixels_.data() +
                             (region_.y_px - window_.y_px + next_row_) * window_row_bytes +
                             std::size_t{region_.x_px - window_.x_px} * 3;
  for (std::uint32_t i = 0; i < row_count; ++i) {
    std::memcpy(rgb + i * row_bytes, from + i * window_row_bytes,
                std::size_t{region_.width_px} * 3);
  }
  next_row_ += row_count;
  return {};
}

}  // namespace feedrace::decode
