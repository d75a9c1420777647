// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/plain_libjpeg.h"

namespace feedrace::diagnose {

Result<void> PlainLibjpeg::start(std::span<const std::byte> encoded) {
  const bool started = state_.open(encoded) && state_.guarded([](jpeg_decompress_struct& cinfo) {
    jpeg_read_header(&cinfo, TRUE);
    cinfo.out_color_space = JCS_RGB;
    cinfo.dct_method = JDCT_ISLOW;
    cinfo.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&cinfo);
  });
  if (!started) return state_.failure();
  return {};
}

Result<void> PlainLibjpeg::read_rows(std::uint32_t row_count, std::uint8_t* rgb,
                                     std::size_t row_bytes) {
  const bool read = state_.guarded([=](jpeg_decompress_struct& cinfo) {
    for (std::uint32_t done = 0; done < row_count;) {
      JSAMPROW row = rgb + done * row_bytes;
      done += jpeg_read_scanlines(&cinfo, &row, 1);
    }
  });
  if (!read) return state_.failure();
  return {};
}

Result<void> PlainLibjpeg::read(std::span<const std::byte> encoded, std::uint8_t* rgb,
                                std::size_t row_bytes) {
  if (auto started = start(encoded); !started) return started;
  auto done = read_rows(state_.cinfo().output_height, rgb, row_bytes);
  state_.close();
  return done;
}

Result<PlainLibjpeg::Placed> PlainLibjpeg::read_region(std::span<const std::byte> encoded,
                                                       const decode::Region& region,
                                                       std::uint8_t* rgb, std::size_t row_bytes) {
  if (auto started = start(encoded); !started) return started.error();
  JDIMENSION x = region.x_px;
  JDIMENSION width = region.width_px;
  const JDIMENSION skipped = region.y_px;
  const bool placed = state_.guarded([&x, &width, skipped](jpeg_decompress_struct& cinfo) {
    jpeg_crop_scanline(&cinfo, &x, &width);
    if (skipped > 0) jpeg_skip_scanlines(&cinfo, skipped);
  });
  if (!placed) return state_.failure();
  if (auto done = read_rows(region.height_px, rgb, row_bytes); !done) return done.error();
  state_.close();
  return Placed{x, width};
}

Result<void> PlainLibjpeg::read_coefficients(std::span<const std::byte> encoded, Look look,
                                             void* context) {
  const bool read = state_.open(encoded) && state_.guarded([=](jpeg_decompress_struct& cinfo) {
    jpeg_read_header(&cinfo, TRUE);
    jvirt_barray_ptr* arrays = jpeg_read_coefficients(&cinfo);
    if (look != nullptr) look(context, cinfo, arrays);
  });
  if (!read) return state_.failure();
  state_.close();
  return {};
}

}  // namespace feedrace::diagnose
