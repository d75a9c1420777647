// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include <jpeglib.h>

#include "feedrace/random.h"

// JPEGs of all kinds, made by libjpeg-turbo.
namespace feedrace::jpeg {

struct TestJpeg {
  std::uint32_t width_px = 64;
  std::uint32_t height_px = 64;
  int component_count = 3;
  int across = 1;  ///< Sampling factors of the first component; the others have 1.
  int down = 1;
  int quality = 90;
  unsigned restart_interval = 0;
  bool is_progressive = false;
  bool has_own_tables = false;  ///< Huffman tables made for this picture.
  std::uint32_t seed = 1;
};

/// A picture of noise: each block has many coefficients, and DC values jump.
inline std::vector<std::byte> encode(const TestJpeg& wanted) {
  jpeg_compress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_compress(&cinfo);
  unsigned char* memory = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's type.
  jpeg_mem_dest(&cinfo, &memory, &size);
  cinfo.image_width = wanted.width_px;
  cinfo.image_height = wanted.height_px;
  cinfo.input_components = wanted.component_count;
  cinfo.in_color_space = wanted.component_count == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&cinfo);
  jpeg_set_quality(&cinfo, wanted.quality, TRUE);
  cinfo.comp_info[0].h_samp_factor = wanted.across;
  cinfo.comp_info[0].v_samp_factor = wanted.down;
  cinfo.restart_interval = wanted.restart_interval;
  cinfo.optimize_coding = wanted.has_own_tables ? TRUE : FALSE;
  if (wanted.is_progressive) jpeg_simple_progression(&cinfo);
  jpeg_start_compress(&cinfo, TRUE);
  SampleRandom random(wanted.seed, 0, 0, 0);
  std::vector<std::uint8_t> row(std::size_t{wanted.width_px} * cinfo.input_components);
  while (cinfo.next_scanline < cinfo.image_height) {
    for (std::uint8_t& value : row) value = static_cast<std::uint8_t>(random.next());
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&cinfo, &rows, 1);
  }
  jpeg_finish_compress(&cinfo);
  jpeg_destroy_compress(&cinfo);
  const auto bytes = std::as_bytes(std::span(memory, size));
  std::vector<std::byte> encoded(bytes.begin(), bytes.end());
  std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc): libjpeg made it by malloc.
  return encoded;
}

}  // namespace feedrace::jpeg
