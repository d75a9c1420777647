// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <setjmp.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <type_traits>

#include <jpeglib.h>

#include "feedrace/error.h"

namespace feedrace::decode {

/// One picture in libjpeg, with callbacks that print nothing, read the caller's bytes in place and
/// leave by longjmp at the first damage.
///
/// Made anew for each picture: it costs 0.1 us of about 700, and tables that an earlier picture
/// defined can't stand in for those that a damaged one lacks. Not movable: libjpeg keeps pointers
/// to its parts.
class JpegState {
 public:
  /// More scans than any encoder writes (libjpeg's script has 10, the finest split of 8-bit data
  /// into bands and bits stays below 100). Each costs a pass over all coefficients but may take
  /// only a few bytes, so that a small file could keep a thread busy for minutes.
  static constexpr int kMaxScans = 100;

  JpegState() = default;
  ~JpegState() { close(); }
  JpegState(const JpegState&) = delete;
  JpegState& operator=(const JpegState&) = delete;

  /// Starts with a new picture. `encoded` must stay alive while it is read.
  bool open(std::span<const std::byte> encoded) noexcept;
  void close() noexcept;

  jpeg_decompress_struct& cinfo() noexcept { return cinfo_; }

  /// Runs `call`, in which libjpeg may leave by longjmp: it must hold nothing that has a
  /// destructor. False when libjpeg left; `failure()` says why.
  template <typename Call>
  __attribute__((noinline)) bool guarded(Call call) noexcept {
    static_assert(std::is_trivially_destructible_v<Call>, "longjmp skips destructors");
    if (setjmp(jump_) != 0) return false;
    call(cinfo_);
    return true;
  }

  /// Of the last `guarded()` that returned false.
  Failure failure() const;
  /// libjpeg's own text of it.
  std::string failure_text() const;
  /// The first harmless warning; empty when there was none.
  std::string warning_text() const;
  std::size_t warning_count() const noexcept { return warning_count_; }
  /// True once libjpeg asked for bytes behind the last one. It was given an end marker, since it
  /// asks also while it merely looks ahead; when the picture needs them, it finds damage.
  bool ran_out() const noexcept { return ran_out_; }
  /// Bytes that libjpeg has not taken yet.
  std::span<const std::byte> rest() const noexcept;

 private:
  struct Callbacks;

  jpeg_decompress_struct cinfo_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  jmp_buf jump_{};
  bool created_ = false;
  bool ran_out_ = false;
  bool too_many_scans_ = false;
  int code_ = 0;                     // Of jerror.h.
  char text_[JMSG_LENGTH_MAX] = "";  // Of the failure.
  char warning_[JMSG_LENGTH_MAX] = "";
  std::size_t warning_count_ = 0;
  std::size_t encoded_bytes_ = 0;
  const std::byte* encoded_end_ = nullptr;
};

/// What libjpeg holds of a picture whose scans it must collect before the first pixel, or whose
/// coefficients are asked for. Behind jpeg_read_header.
std::uint64_t coefficient_bytes(const jpeg_decompress_struct& cinfo) noexcept;

}  // namespace feedrace::decode
