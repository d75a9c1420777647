// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "feedrace/error.h"

namespace feedrace::decode {

/// A rectangle of a picture, in pixels. `x_px`, `y_px` count from the top left corner.
struct Region {
  std::uint32_t x_px = 0;
  std::uint32_t y_px = 0;
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;

  friend bool operator==(const Region&, const Region&) = default;
};

/// What a header says about a picture, as it is stored.
struct ImageInfo {
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
  std::uint32_t component_count = 3;  ///< Of the stored picture: 1 grey, 2 grey + alpha, 3, 4.
  std::uint8_t orientation = 1;  ///< EXIF, 1 to 8; 1 means upright, and when the file is silent.
  const char* format = "";       ///< "jpeg", "png", "webp", "npy".

  Region whole() const noexcept { return {0, 0, width_px, height_px}; }
};

/// Rows of RGB where they lie already: `row_bytes` apart. `rgb` is null where there are none.
struct PixelRows {
  const std::uint8_t* rgb = nullptr;
  std::size_t row_bytes = 0;
};

/// Bounds that hold before anything is allocated.
struct DecodeLimits {
  /// Pillow's limit for an error: 2 x 89,478,485 pixels, i.e. 256 MiB of RGB at 3 bytes, twice.
  static constexpr std::uint64_t kDefaultMaxPixels = 178'956'970;
  std::uint64_t max_pixels = kDefaultMaxPixels;
  /// What a decoder may hold for one picture besides the caller's memory. 1 GiB.
  std::uint64_t max_memory_bytes = std::uint64_t{1} << 30;
};

/// Who decodes JPEG. Pixels, failures and complaints do not depend on it, but that Feedrace's own
/// decoder sees damage that libjpeg-turbo says nothing of.
enum class JpegEngine : std::uint8_t {
  kFeedrace,      ///< Our own; what is unusual or damaged goes to libjpeg-turbo.
  kLibjpegTurbo,  ///< libjpeg-turbo alone.
};

/// As options and plans spell it: "feedrace", "libjpeg-turbo".
const char* to_string(JpegEngine engine) noexcept;

/// Turns one encoded picture into RGB rows. One instance serves one thread, picture after picture,
/// and keeps its memory between them.
///
/// Contract, checked for every decoder by `decode/decoder_contract_test.cc`:
/// - pixels are RGB, 8 bits, interleaved: grey is repeated, CMYK and YCCK are converted, alpha is
///   dropped (not blended), 16 bits are scaled to 8;
/// - the rows of a region equal the same rows of the whole picture, cut;
/// - any input bytes give pixels or a Failure; never a crash, an endless loop, or memory beyond
///   the limits; after a Failure the next picture decodes as if nothing had been;
/// - messages do not name the sample: the caller knows it and puts it in front.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// True when `encoded` begins as this decoder's format does. Names are never looked at.
  virtual bool accepts(std::span<const std::byte> encoded) const noexcept = 0;

  /// Reads the header. Failures: kCorruptData, kUnsupported; too many pixels is kCorruptData.
  virtual Result<ImageInfo> probe(std::span<const std::byte> encoded,
                                  const DecodeLimits& limits) = 0;

  /// Makes the rows of `region` ready to be read. `encoded` must stay alive until the last row is
  /// read or the next call of `probe` or `begin`. `region` is not empty and lies inside.
  virtual Result<void> begin(std::span<const std::byte> encoded, const Region& region,
                             const DecodeLimits& limits) = 0;

  /// Behind `begin`: the rows of the region that are still to come, where they lie as they are
  /// wanted; then nobody needs to copy them, and `read_rows` may be left out. They stay as long as
  /// `encoded`, and until the next call of `probe` or `begin`.
  virtual PixelRows rows_in_place() const noexcept { return {}; }

  /// Writes the next `row_count` rows of the region, top to bottom, to `rgb`: `region.width_px * 3`
  /// bytes each, `row_bytes` apart (may be padded). Never more rows in all than the region has.
  virtual Result<void> read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                                 std::uint32_t row_count) = 0;

  /// What the decoder complained about in the current picture although it gave pixels; empty when
  /// it had nothing to say. Valid after the last row, until the next `begin`.
  virtual const std::string& complaint() const noexcept = 0;
};

}  // namespace feedrace::decode
