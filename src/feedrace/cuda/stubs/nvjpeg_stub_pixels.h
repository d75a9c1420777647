// SPDX-License-Identifier: Apache-2.0
#pragma once

// Of the stub of nvJPEG: what libjpeg-turbo reads of a picture.
#include <nvjpeg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>

#include <cstring>
#include <vector>

#include <jpeglib.h>

namespace feedrace::nvjpeg_stub {

struct Region {
  int x_px = 0;
  int y_px = 0;
  int width_px = -1;  // All of the picture.
  int height_px = -1;
};

struct Frame {
  unsigned width_px = 0;
  unsigned height_px = 0;
  unsigned component_count = 0;
  unsigned bits = 0;
  unsigned luma_x = 1;  // Sampling factors of the first component.
  unsigned luma_y = 1;
  bool is_progressive = false;
  bool has_one_scan = false;
};

struct Pixels {
  unsigned width_px = 0;
  unsigned height_px = 0;
  std::vector<unsigned char> rgb;
};

/// libjpeg's errors come back by a jump; warnings are counted.
struct Errors {
  jpeg_error_mgr base;
  jmp_buf back;
};

inline void leave(j_common_ptr info) { longjmp(reinterpret_cast<Errors*>(info->err)->back, 1); }
inline void say_nothing(j_common_ptr) {}

struct Reader {
  Reader(const unsigned char* bytes, std::size_t size) : data(bytes), size_bytes(size) {
    info.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = leave;
    errors.base.output_message = say_nothing;
  }
  ~Reader() { jpeg_destroy_decompress(&info); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const unsigned char* data;
  std::size_t size_bytes;
  Errors errors{};
  jpeg_decompress_struct info{};
};

inline nvjpegStatus_t read_frame(const unsigned char* bytes, std::size_t size_bytes, Frame* frame) {
  Reader reader(bytes, size_bytes);
  if (setjmp(reader.errors.back) != 0) return NVJPEG_STATUS_BAD_JPEG;
  jpeg_create_decompress(&reader.info);
  jpeg_mem_src(&reader.info, bytes, static_cast<unsigned long>(size_bytes));
  jpeg_read_header(&reader.info, TRUE);
  const jpeg_decompress_struct& info = reader.info;
  *frame = {info.image_width,
            info.image_height,
            static_cast<unsigned>(info.num_components),
            static_cast<unsigned>(info.data_precision),
            static_cast<unsigned>(info.comp_info[0].h_samp_factor),
            static_cast<unsigned>(info.comp_info[0].v_samp_factor),
            info.progressive_mode != 0,
            info.comps_in_scan == info.num_components && info.progressive_mode == 0};
  return info.arith_code != 0 ? NVJPEG_STATUS_JPEG_NOT_SUPPORTED : NVJPEG_STATUS_SUCCESS;
}

inline nvjpegStatus_t read_pixels(const unsigned char* bytes, std::size_t size_bytes,
                                  bool is_strict, Pixels* pixels) {
  Reader reader(bytes, size_bytes);
  if (setjmp(reader.errors.back) != 0) return NVJPEG_STATUS_BAD_JPEG;
  jpeg_create_decompress(&reader.info);
  jpeg_mem_src(&reader.info, bytes, static_cast<unsigned long>(size_bytes));
  jpeg_read_header(&reader.info, TRUE);
  jpeg_decompress_struct& info = reader.info;
  if (info.num_components == 4) return NVJPEG_STATUS_JPEG_NOT_SUPPORTED;
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  pixels->width_px = info.output_width;
  pixels->height_px = info.output_height;
  const std::size_t row_bytes = std::size_t{3} * info.output_width;
  pixels->rgb.resize(row_bytes * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels->rgb.data() + row_bytes * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  const bool is_bad = is_strict && reader.errors.base.num_warnings > 0;
  return is_bad ? NVJPEG_STATUS_BAD_JPEG : NVJPEG_STATUS_SUCCESS;
}

/// The region of the pixels, without gaps.
inline Pixels cut(const Pixels& all, const Region& region) {
  if (region.width_px < 0) return all;
  Pixels part{static_cast<unsigned>(region.width_px), static_cast<unsigned>(region.height_px), {}};
  const std::size_t row_bytes = std::size_t{3} * part.width_px;
  part.rgb.resize(row_bytes * part.height_px);
  for (unsigned y = 0; y < part.height_px; ++y) {
    const std::size_t from = (static_cast<std::size_t>(region.y_px) + y) * all.width_px +
                             static_cast<std::size_t>(region.x_px);
    std::memcpy(part.rgb.data() + y * row_bytes, all.rgb.data() + from * 3, row_bytes);
  }
  return part;
}

}  // namespace feedrace::nvjpeg_stub
