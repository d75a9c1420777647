// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/png_decoder.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <spng.h>

#include "feedrace/decode/bytes.h"
#include "feedrace/decode/messages.h"

namespace feedrace::decode {
namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";

int read_stream(spng_ctx* /*context*/, void* user, void* to, std::size_t size_bytes) {
  return static_cast<PngPixelStream*>(user)->read(to, size_bytes) ? 0 : SPNG_IO_EOF;
}

Failure png_failure(int error, std::size_t encoded_bytes) {
  if (error == SPNG_EMEM) return {ErrorCode::kIo, "PNG data: no memory; use fewer decode threads"};
  if (error == SPNG_IO_EOF || error == SPNG_EIDAT_TOO_SHORT) {
    return corrupt(fmt::format("truncated PNG data: the picture is incomplete after {} bytes ({})",
                               encoded_bytes, spng_strerror(error)));
  }
  return corrupt(fmt::format("corrupt PNG data: {}", spng_strerror(error)));
}

/// libspng keeps two rows in the picture's own packing; the whole picture lies in our memory.
std::uint64_t memory_bytes(const PngHeader& header) noexcept {
  const std::uint64_t kept_rows = header.interlaced ? header.height_px : 1;
  return header.row_bytes() * (kept_rows + 2);
}

}  // namespace

void PngDecoder::FreeContext::operator()(spng_ctx* context) const noexcept {
  spng_ctx_free(context);
}

bool PngDecoder::accepts(std::span<const std::byte> encoded) const noexcept {
  return holds(encoded, 0, kSignature);
}

Result<PngHeader> PngDecoder::open(std::span<const std::byte> encoded, const DecodeLimits& limits) {
  close();
  complaint_.clear();
  Result<PngHeader> header = read_png_header(encoded);
  if (!header) return header;
  Result<void> fits = check_size("PNG", header->width_px, header->height_px, limits);
  if (!fits) return fits.error();
  return header;
}

Result<ImageInfo> PngDecoder::probe(std::span<const std::byte> encoded,
                                    const DecodeLimits& limits) {
  Result<PngHeader> header = open(encoded, limits);
  if (!header) return header.error();
  const std::uint32_t component_count = header->colour_type == 3 ? 3 : header->channel_count();
  return ImageInfo{header->width_px, header->height_px, component_count, header->orientation,
                   "png"};
}

Result<void> PngDecoder::begin(std::span<const std::byte> encoded, const Region& region,
                               const DecodeLimits& limits) {
  Result<PngHeader> header = open(encoded, limits);
  if (!header) return header.error();
  header_ = *header;
  region_ = region;
  encoded_bytes_ = encoded.size();
  if (memory_bytes(header_) > limits.max_memory_bytes) {
    return needs_too_much_memory("PNG", memory_bytes(header_), limits);
  }
  const std::size_t kept_rows = header_.interlaced ? header_.height_px : 1;
  if (!rows_.reserve(kept_rows * header_.row_bytes())) {
    return out_of_memory("PNG", memory_bytes(header_));
  }
  stream_ = PngPixelStream(encoded);
  Result<void> started = start();
  if (!started) {
    close();
    return started;
  }
  rows_left_ = region.height_px;
  return {};
}

Result<void> PngDecoder::start() {
  context_.reset(spng_ctx_new(0));
  if (context_ == nullptr) return png_failure(SPNG_EMEM, encoded_bytes_);
  int error = spng_set_png_stream(context_.get(), read_stream, &stream_);
  if (error == 0 && header_.interlaced) {
    const std::size_t size = header_.row_bytes() * header_.height_px;
    std::memset(rows_.data(), 0, size);  // libspng ORs samples of less than 8 bits in.
    error = spng_decode_image(context_.get(), rows_.data(), size, SPNG_FMT_RAW, 0);
  } else if (error == 0) {
    error = spng_decode_image(context_.get(), nullptr, 0, SPNG_FMT_RAW, SPNG_DECODE_PROGRESSIVE);
  }
  if (error != 0) return png_failure(error, encoded_bytes_);
  if (header_.colour_type == 3) {
    Result<void> palette = read_palette();
    if (!palette) return palette;
  }
  for (next_row_ = 0; next_row_ < region_.y_px && !header_.interlaced;) {
    Result<void> skipped = decode_row(rows_.data());
    if (!skipped) return skipped;
  }
  next_row_ = region_.y_px;
  return {};
}

Result<void> PngDecoder::read_palette() {
  spng_plte stored{};
  const int error = spng_get_plte(context_.get(), &stored);
  if (error != 0) return png_failure(error, encoded_bytes_);
  palette_ = {};
  palette_.colour_count = std::min<std::uint32_t>(stored.n_entries, 256);
  for (std::size_t i = 0; i < palette_.colour_count; ++i) {
    palette_.rgb[i * 3] = stored.entries[i].red;
    palette_.rgb[i * 3 + 1] = stored.entries[i].green;
    palette_.rgb[i * 3 + 2] = stored.entries[i].blue;
  }
  return {};
}

/// The next row of a picture that is not interlaced, as PNG packs it.
Result<void> PngDecoder::decode_row(std::uint8_t* to) {
  const int error = spng_decode_row(context_.get(), to, header_.row_bytes());
  ++next_row_;
  const bool last = next_row_ == header_.height_px;
  if (error == 0 || (last && error == SPNG_EOI)) return {};
  return png_failure(error, encoded_bytes_);
}

Result<void> PngDecoder::read_row(std::uint8_t* rgb) {
  const bool plain = header_.colour_type == 2 && header_.bit_depth == 8;
  if (plain && !header_.interlaced && region_.width_px == header_.width_px) return decode_row(rgb);
  const std::uint8_t* packed = rows_.data();
  if (header_.interlaced) {
    packed += std::size_t{next_row_++} * header_.row_bytes();
  } else {
    Result<void> decoded = decode_row(rows_.data());
    if (!decoded) return decoded;
  }
  const std::uint32_t largest =
      png_row_to_rgb(header_, palette_, packed, region_.x_px, region_.width_px, rgb);
  if (header_.colour_type == 3 && largest >= palette_.colour_count) {
    return corrupt(
        fmt::format("corrupt PNG data: palette index {} in row {}, the palette has {} "
                    "colours",
                    largest, next_row_ - 1, palette_.colour_count));
  }
  return {};
}

Result<void> PngDecoder::read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                                   std::uint32_t row_count) {
  if (row_count > rows_left_) {
    return Failure{ErrorCode::kInvalidArgument,
                   fmt::format("PNG decoder: {} rows asked for, {} left; call begin() first",
                               row_count, rows_left_)};
  }
  for (std::uint32_t i = 0; i < row_count; ++i) {
    Result<void> read = read_row(rgb + i * row_bytes);
    if (!read) {
      close();
      return read;
    }
  }
  rows_left_ -= row_count;
  return rows_left_ == 0 && row_count > 0 ? finish() : Result<void>{};
}

/// After the last row. When that is the picture's last too, the checksum of the last data chunk
/// is still unread.
Result<void> PngDecoder::finish() {
  int error = 0;
  if (next_row_ == header_.height_px) error = spng_decode_chunks(context_.get());
  close();
  if (error == SPNG_IO_EOF) {
    complaint_ = "the end chunk (IEND) is missing";
    return {};
  }
  return error == 0 ? Result<void>{} : Result<void>{png_failure(error, encoded_bytes_)};
}

void PngDecoder::close() noexcept {
  context_.reset();
  rows_left_ = 0;
}

}  // namespace feedrace::decode
