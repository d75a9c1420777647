// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/libjpeg_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "feedrace/decode/bytes.h"
#include "feedrace/decode/jpeg_header.h"
#include "feedrace/decode/messages.h"

namespace feedrace::decode {
namespace {

/// Rows asked for at a time; libjpeg gives as many as one row of blocks of the finest component
/// has above each other, at most four.
constexpr std::uint32_t kBandRows = 4;

/// True when cropping and skipping in libjpeg is known, by test, to give the pixels of the whole
/// picture: each component is sampled 1, 2 or 4 times less often than the finest.
bool has_plain_sampling(const jpeg_decompress_struct& cinfo) noexcept {
  const auto plain = [](int finest, int own) {
    return finest == own || finest == 2 * own || finest == 4 * own;
  };
  return std::all_of(cinfo.comp_info, cinfo.comp_info + cinfo.num_components,
                     [&](const jpeg_component_info& component) {
                       return plain(cinfo.max_h_samp_factor, component.h_samp_factor) &&
                              plain(cinfo.max_v_samp_factor, component.v_samp_factor);
                     });
}

/// True when every bit of every coefficient has been sent. Until then libjpeg smooths block edges
/// with the neighbours' help, which a crop would change.
bool is_complete(const jpeg_decompress_struct& cinfo) noexcept {
  if (!cinfo.progressive_mode || cinfo.coef_bits == nullptr) return true;
  for (int i = 0; i < cinfo.num_components; ++i) {
    const int* bits = cinfo.coef_bits[i];
    if (std::any_of(bits, bits + DCTSIZE2, [](int missing) { return missing != 0; })) return false;
  }
  return true;
}

/// Inverted CMYK to RGB with Pillow's rounding: (255 - C) (255 - K) / 255.
void cmyk_to_rgb(const JSAMPLE* cmyk, std::uint32_t pixel_count, std::uint8_t* rgb) noexcept {
  for (std::uint32_t i = 0; i < pixel_count; ++i, cmyk += 4, rgb += 3) {
    const unsigned white = cmyk[3];
    for (int channel = 0; channel < 3; ++channel) {
      const unsigned product = (255U - cmyk[channel]) * white + 128U;
      rgb[channel] = static_cast<std::uint8_t>(white - ((product >> 8) + product) / 256U);
    }
  }
}

/// The columns that libjpeg has to decode for a region.
struct Columns {
  JDIMENSION first = 0;
  JDIMENSION count = 0;
};

/// libjpeg moves the left edge out to a whole block group, and smooths chroma at both edges of a
/// crop as if the picture ended there. One more pixel on each side is enough against that, but
/// below three chroma columns it would not smooth at all.
Columns columns_for(const Region& region, const jpeg_decompress_struct& cinfo) noexcept {
  const auto finest = static_cast<JDIMENSION>(cinfo.max_h_samp_factor);
  const JDIMENSION group = finest * DCTSIZE;
  const JDIMENSION least = 4 * finest;
  JDIMENSION first = region.x_px > 0 ? (region.x_px - 1) / group * group : 0;
  JDIMENSION end = std::max(region.x_px + region.width_px + 1, first + least);
  end = std::min<JDIMENSION>(end, cinfo.image_width);
  if (end - first < least && first > 0) first -= group;
  return {first, end - first};
}

}  // namespace

bool LibjpegDecoder::accepts(std::span<const std::byte> encoded) const noexcept {
  return holds(encoded, 0, "\xff\xd8");
}

Result<ImageInfo> LibjpegDecoder::open(std::span<const std::byte> encoded,
                                       const DecodeLimits& limits) {
  rows_left_ = 0;
  complaint_.clear();
  const Result<JpegHeader> header = read_jpeg_header(encoded);
  if (!header) return header.error();
  if (header->has_frame) {
    // Before libjpeg, whose own limit of 65,500 a side has a message without the numbers.
    Result<void> fits = check_size("JPEG", header->width_px, header->height_px, limits);
    if (!fits) return fits.error();
  }
  if (!state_.open(encoded)) return state_.failure();
  if (!state_.guarded([](jpeg_decompress_struct& cinfo) { jpeg_read_header(&cinfo, TRUE); })) {
    return state_.failure();
  }
  const jpeg_decompress_struct& cinfo = state_.cinfo();
  Result<void> fits = check_size("JPEG", cinfo.image_width, cinfo.image_height, limits);
  if (!fits) return fits.error();
  if (cinfo.num_components != 1 && cinfo.num_components != 3 && cinfo.num_components != 4) {
    return unsupported(
        fmt::format("a JPEG picture of {} colour components, whose meaning no "
                    "standard says",
                    cinfo.num_components));
  }
  return ImageInfo{cinfo.image_width, cinfo.image_height,
                   static_cast<std::uint32_t>(cinfo.num_components), header->orientation, "jpeg"};
}

Result<ImageInfo> LibjpegDecoder::probe(std::span<const std::byte> encoded,
                                        const DecodeLimits& limits) {
  Result<ImageInfo> info = open(encoded, limits);
  state_.close();
  return info;
}

Result<void> LibjpegDecoder::begin(std::span<const std::byte> encoded, const Region& region,
                                   const DecodeLimits& limits) {
  Result<ImageInfo> info = open(encoded, limits);
  if (!info) return info.error();
  Result<void> started = start(limits);
  if (!started) return started;
  region_ = region;
  if (!place_window(region)) return state_.failure();
  const std::size_t band_bytes = std::size_t{state_.cinfo().output_width} *
                                 static_cast<std::size_t>(state_.cinfo().out_color_components) *
                                 kBandRows;
  if (!band_.reserve(band_bytes)) return out_of_memory("JPEG", band_bytes);
  if (!drop_rows(region.y_px - state_.cinfo().output_scanline)) return state_.failure();
  rows_left_ = region.height_px;
  return {};
}

Result<void> LibjpegDecoder::start(const DecodeLimits& limits) {
  jpeg_decompress_struct& cinfo = state_.cinfo();
  collects_ = cinfo.progressive_mode || jpeg_has_multiple_scans(&cinfo);
  if (collects_ && coefficient_bytes(cinfo) > limits.max_memory_bytes) {
    return needs_too_much_memory("JPEG", coefficient_bytes(cinfo), limits);
  }
  if (!collects_ && !has_end_marker(state_.rest())) complain("the end marker (EOI) is missing");
  cinfo.out_color_space = cinfo.num_components == 4 ? JCS_CMYK : JCS_RGB;
  cinfo.dct_method = JDCT_ISLOW;
  cinfo.do_fancy_upsampling = TRUE;
  if (!state_.guarded([](jpeg_decompress_struct& picture) { jpeg_start_decompress(&picture); })) {
    return state_.failure();
  }
  complete_ = is_complete(cinfo);
  return collects_ ? check_scans() : Result<void>{};
}

/// All scans of the picture have been read; finds those that are missing.
Result<void> LibjpegDecoder::check_scans() {
  const jpeg_decompress_struct& cinfo = state_.cinfo();
  for (int i = 0; i < cinfo.num_components; ++i) {
    // libjpeg takes a component's quantisation table over at its first scan.
    if (cinfo.comp_info[i].quant_table != nullptr) continue;
    return corrupt(fmt::format("incomplete JPEG data: colour component {} of {} is in no scan",
                               i + 1, cinfo.num_components));
  }
  if (state_.ran_out() && !complete_) {
    return corrupt("truncated JPEG data: it ends before the last scan of a progressive picture");
  }
  if (state_.ran_out()) complain("the end marker (EOI) is missing");
  if (!complete_) complain("the progressive picture has no scans for its finest details");
  return {};
}

bool LibjpegDecoder::place_window(const Region& region) noexcept {
  const bool partial = complete_ && has_plain_sampling(state_.cinfo());
  const Columns columns =
      partial ? columns_for(region, state_.cinfo()) : Columns{0, state_.cinfo().image_width};
  skipped_columns_ = region.x_px - columns.first;
  return state_.guarded([partial, columns, &region](jpeg_decompress_struct& cinfo) {
    if (columns.count < cinfo.image_width) {
      JDIMENSION first = columns.first;
      JDIMENSION count = columns.count;
      jpeg_crop_scanline(&cinfo, &first, &count);
    }
    if (partial && region.y_px > 0) jpeg_skip_scanlines(&cinfo, region.y_px);
  });
}

Result<void> LibjpegDecoder::read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                                       std::uint32_t row_count) {
  if (row_count > rows_left_) {
    return Failure{ErrorCode::kInvalidArgument,
                   fmt::format("JPEG decoder: {} rows asked for, {} left; call begin() first",
                               row_count, rows_left_)};
  }
  if (row_count == 0) return {};
  const jpeg_decompress_struct& cinfo = state_.cinfo();
  const bool direct = cinfo.output_width == region_.width_px && cinfo.out_color_components == 3;
  const bool read =
      direct ? read_direct(rgb, row_bytes, row_count) : read_cut(rgb, row_bytes, row_count);
  if (!read) {
    rows_left_ = 0;
    Failure failure = state_.failure();
    state_.close();
    return failure;
  }
  rows_left_ -= row_count;
  if (rows_left_ == 0) finish();
  return {};
}

/// Lets libjpeg write `row_count` rows, `row_bytes` apart, from `to` on.
bool LibjpegDecoder::read_direct(std::uint8_t* to, std::size_t row_bytes,
                                 std::uint32_t row_count) noexcept {
  return state_.guarded([to, row_bytes, row_count](jpeg_decompress_struct& cinfo) {
    std::array<JSAMPROW, kBandRows> rows{};
    for (std::uint32_t done = 0; done < row_count;) {
      const std::uint32_t wanted = std::min(kBandRows, row_count - done);
      for (std::uint32_t i = 0; i < wanted; ++i) rows[i] = to + (done + i) * row_bytes;
      done += jpeg_read_scanlines(&cinfo, rows.data(), wanted);
    }
  });
}

/// Reads rows into the band and copies the region's columns out of it.
bool LibjpegDecoder::read_cut(std::uint8_t* rgb, std::size_t row_bytes,
                              std::uint32_t row_count) noexcept {
  const jpeg_decompress_struct& cinfo = state_.cinfo();
  const auto pixel_bytes = static_cast<std::size_t>(cinfo.out_color_components);
  const std::size_t band_row_bytes = cinfo.output_width * pixel_bytes;
  for (std::uint32_t done = 0; done < row_count;) {
    const std::uint32_t wanted = std::min(kBandRows, row_count - done);
    if (!read_direct(band_.data(), band_row_bytes, wanted)) return false;
    for (std::uint32_t i = 0; i < wanted; ++i, ++done) {
      const std::uint8_t* from = band_.data() + i * band_row_bytes + skipped_columns_ * pixel_bytes;
      std::uint8_t* to = rgb + done * row_bytes;
      if (pixel_bytes == 4) {
        cmyk_to_rgb(from, region_.width_px, to);
      } else {
        std::memcpy(to, from, std::size_t{region_.width_px} * 3);
      }
    }
  }
  return true;
}

bool LibjpegDecoder::drop_rows(std::uint32_t row_count) noexcept {
  // Rows of stride 0: all land in the band's first row.
  return row_count == 0 || read_direct(band_.data(), 0, row_count);
}

/// After the last row. When that is the picture's last too, what libjpeg finds between it and the
/// end marker tells of damage that gave plausible codes.
void LibjpegDecoder::finish() {
  const jpeg_decompress_struct& cinfo = state_.cinfo();
  const bool at_bottom = cinfo.output_scanline == cinfo.output_height;
  if (at_bottom && !collects_ &&
      !state_.guarded([](jpeg_decompress_struct& picture) { jpeg_finish_decompress(&picture); })) {
    complain(state_.failure_text());
  }
  if (state_.warning_count() > 0) complain(state_.warning_text());
  state_.close();
}

void LibjpegDecoder::complain(const std::string& text) {
  if (!complaint_.empty()) complaint_ += "; ";
  complaint_ += text;
}

}  // namespace feedrace::decode
