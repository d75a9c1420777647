// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "feedrace/error.h"

namespace feedrace::decode {

enum class ImageFormat : std::uint8_t {
  kJpeg,
  kPng,
  kWebp,
  kGif,
  kBmp,
  kTiff,
  kAvif,
  kHeif,
  kJpegXl,
  kJpeg2000,
  kIcon,
  kPhotoshop,
  kPdf,
  kSvg,
  kHtml,
  kXml,
  kLfsPointer,
  kAppleDouble,
  kArchive,  ///< Zip or gzip.
  kZeros,    ///< Nothing but zero bytes.
  kEmpty,
  kText,
  kUnknown,
};

/// What the first bytes say. Names are never looked at: data sets are full of wrong ones.
ImageFormat detect_format(std::span<const std::byte> encoded) noexcept;

/// Why `encoded`, which no decoder accepts, can't be read: what it is and what to do.
Failure unreadable(std::span<const std::byte> encoded);

}  // namespace feedrace::decode
