// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <setjmp.h>

#include <cstdio>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <jpeglib.h>

#include "feedrace/error.h"

namespace feedrace::pack {

/// One picture that libjpeg writes to memory, with callbacks that print nothing and leave by
/// longjmp. Not movable: libjpeg keeps pointers to its parts.
class JpegOutput {
 public:
  JpegOutput() = default;
  ~JpegOutput();
  JpegOutput(const JpegOutput&) = delete;
  JpegOutput& operator=(const JpegOutput&) = delete;

  bool open() noexcept;

  /// Runs `call`, in which libjpeg may leave by longjmp: it must hold nothing that has a
  /// destructor. False when libjpeg left; `failure()` says why.
  template <typename Call>
  __attribute__((noinline)) bool guarded(Call call) noexcept {
    static_assert(std::is_trivially_destructible_v<Call>, "longjmp skips destructors");
    if (setjmp(jump_) != 0) return false;
    call(cinfo_);
    return true;
  }

  Failure failure() const;
  /// What was written, once libjpeg has finished.
  std::string bytes() const { return {reinterpret_cast<const char*>(bytes_), size_bytes_}; }

 private:
  jpeg_compress_struct cinfo_{};
  jpeg_error_mgr errors_{};
  jmp_buf jump_{};
  bool is_created_ = false;
  int code_ = 0;  // Of jerror.h.
  char text_[JMSG_LENGTH_MAX] = "";
  unsigned char* bytes_ = nullptr;  // By malloc.
  unsigned long size_bytes_ = 0;
};

/// A marker segment: what stands behind its length.
struct JpegSegment {
  int marker = 0;  ///< JPEG_APP0 and so on.
  std::span<const JOCTET> data;
};

/// EXIF, XMP and, but for CMYK whose profile does not fit RGB, ICC segments of a JPEG, in order.
/// They point into it.
std::vector<JpegSegment> kept_segments(std::span<const std::byte> encoded, bool is_cmyk);

struct JpegPixels {
  const std::uint8_t* values = nullptr;  ///< Rows without padding.
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
  std::uint32_t channel_count = 3;  ///< 1: grey.
};

/// Baseline, 4:2:0, the accurate DCT, tables made for the picture. Failures: kUnsupported for more
/// than 65,500 pixels a side, kIo for no memory.
Result<std::string> encode_jpeg(const JpegPixels& pixels, int quality, unsigned restart_rows,
                                std::span<const JpegSegment> segments);

}  // namespace feedrace::pack
