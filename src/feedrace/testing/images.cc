// SPDX-License-Identifier: Apache-2.0
#include "feedrace/testing/images.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cstring>
#include <vector>

#include <jpeglib.h>

namespace feedrace::testing {
namespace {

std::uint8_t pixel(std::uint32_t x, std::uint32_t y, std::uint32_t c, std::uint32_t seed) {
  const std::uint32_t wave = x * (3 + seed % 5) + y * (2 + seed % 7) + c * 80 + seed * 37;
  const std::uint32_t detail = ((x ^ y) * 2654435761U + seed) >> 28;  // 0 to 15
  const std::uint32_t ramp = wave % 480;
  return static_cast<std::uint8_t>((ramp < 240 ? ramp : 479 - ramp) + detail);
}

}  // namespace

std::string make_jpeg(std::uint32_t width_px, std::uint32_t height_px, std::uint32_t seed,
                      int quality) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = width_px;
  info.image_height = height_px;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row(std::size_t{3} * width_px);
  for (std::uint32_t y = 0; y < height_px; ++y) {
    for (std::uint32_t x = 0; x < width_px; ++x) {
      for (std::uint32_t c = 0; c < 3; ++c) row[x * 3 + c] = pixel(x, y, c, seed);
    }
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  std::string encoded(reinterpret_cast<const char*>(buffer), size);
  jpeg_destroy_compress(&info);
  free(buffer);
  return encoded;
}

std::string tar_member(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  char octal[13];
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  std::snprintf(octal, sizeof octal, "%011zo", content.size());
  put(124, octal);
  put(136, "00000000000");
  put(148, "        ");  // The checksum counts its own field as blanks.
  put(156, "0");
  put(257, std::string("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  put(148, std::string(octal, 7) + " ");
  std::string member = header + content;
  member.resize((member.size() + 511) / 512 * 512, '\0');
  return member;
}

std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace feedrace::testing
