// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/jpeg_output.h"

#include <stdlib.h>

#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <jerror.h>

namespace feedrace::pack {
namespace {

using std::string_view_literals::operator""sv;

constexpr unsigned kSos = 0xda;

bool is_kept(int marker, std::string_view data, bool is_cmyk) {
  if (marker == JPEG_APP0 + 1) {
    return data.starts_with("Exif\0\0"sv) || data.starts_with("http://ns.adobe.com/xap/1.0/\0"sv);
  }
  return marker == JPEG_APP0 + 2 && !is_cmyk && data.starts_with("ICC_PROFILE\0"sv);
}

}  // namespace

JpegOutput::~JpegOutput() {
  if (is_created_) jpeg_destroy_compress(&cinfo_);
  free(bytes_);
}

bool JpegOutput::open() noexcept {
  cinfo_.err = jpeg_std_error(&errors_);
  errors_.error_exit = [](j_common_ptr cinfo) {
    auto& self = *static_cast<JpegOutput*>(cinfo->client_data);
    self.code_ = cinfo->err->msg_code;
    (*cinfo->err->format_message)(cinfo, self.text_);
    longjmp(self.jump_, 1);
  };
  errors_.emit_message = [](j_common_ptr, int) {};
  errors_.output_message = [](j_common_ptr) {};
  cinfo_.client_data = this;
  is_created_ = guarded([](jpeg_compress_struct& cinfo) { jpeg_create_compress(&cinfo); });
  return is_created_ && guarded([this](jpeg_compress_struct& cinfo) {
           jpeg_mem_dest(&cinfo, &bytes_, &size_bytes_);
         });
}

Failure JpegOutput::failure() const {
  if (code_ == JERR_OUT_OF_MEMORY) {
    return {ErrorCode::kIo, fmt::format("encoding JPEG: {}; use fewer threads", text_)};
  }
  return {ErrorCode::kUnsupported,
          fmt::format("encoding JPEG: {}; leave the picture as it is, or take it out", text_)};
}

std::vector<JpegSegment> kept_segments(std::span<const std::byte> encoded, bool is_cmyk) {
  const auto* bytes = reinterpret_cast<const JOCTET*>(encoded.data());
  std::vector<JpegSegment> kept;
  // A decoder went over them: what is odd ends the walk.
  for (std::size_t at = 2; at + 4 <= encoded.size() && bytes[at] == 0xff;) {
    const unsigned code = bytes[at + 1];
    if (code == 0xff) {  // Filling.
      ++at;
      continue;
    }
    const std::size_t length = std::size_t{bytes[at + 2]} << 8 | bytes[at + 3];
    if (code == kSos || length < 2 || length > encoded.size() - at - 2) break;
    const std::span<const JOCTET> data(bytes + at + 4, length - 2);
    const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
    const int marker = static_cast<int>(code);
    if (is_kept(marker, text, is_cmyk)) kept.push_back({marker, data});
    at += 2 + length;
  }
  return kept;
}

Result<std::string> encode_jpeg(const JpegPixels& pixels, int quality, unsigned restart_rows,
                                std::span<const JpegSegment> segments) {
  JpegOutput output;
  const bool done = output.open() && output.guarded([=](jpeg_compress_struct& cinfo) {
    cinfo.image_width = pixels.width_px;
    cinfo.image_height = pixels.height_px;
    cinfo.input_components = static_cast<int>(pixels.channel_count);
    cinfo.in_color_space = pixels.channel_count == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&cinfo);  // 4:2:0 among them.
    jpeg_set_quality(&cinfo, quality, TRUE);
    cinfo.dct_method = JDCT_ISLOW;
    cinfo.optimize_coding = TRUE;
    cinfo.restart_in_rows = static_cast<int>(restart_rows);
    jpeg_start_compress(&cinfo, TRUE);
    for (const JpegSegment& segment : segments) {
      jpeg_write_marker(&cinfo, segment.marker, segment.data.data(),
                        static_cast<unsigned>(segment.data.size()));
    }
    const std::size_t row_bytes = std::size_t{pixels.width_px} * pixels.channel_count;
    while (cinfo.next_scanline < cinfo.image_height) {
      auto* row = const_cast<JSAMPROW>(pixels.values + cinfo.next_scanline * row_bytes);
      jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
  });
  if (!done) return output.failure();
  return output.bytes();
}

}  // namespace feedrace::pack
