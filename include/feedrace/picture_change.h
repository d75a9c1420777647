// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace feedrace::pack {

/// How a decoded picture is squeezed, all of it lossless.
enum class RawCompression : std::uint8_t { kNone, kLz4, kZstd };
const char* to_string(RawCompression compression) noexcept;  ///< "none", "lz4", "zstd".
std::optional<RawCompression> raw_compression(std::string_view name) noexcept;

/// Decoded pictures: `.npy`, uint8 [H, W, 3], upright: it has no tag that would say how to turn it.
struct RawOptions {
  RawCompression compression = RawCompression::kNone;
};

/// What is done to each picture while it is packed; nothing, as it stands here. A sample has one
/// picture: that which a loader takes. What else it has (masks) keeps its bytes.
struct PictureChange {
  enum class Resize : std::uint8_t { kNone, kShortest, kLongest };

  /// The side that is made `side_px`, the other one in proportion, by Pillow's antialiased bilinear
  /// resize. Never enlarged: smaller pictures keep their bytes, where nothing else changes them.
  Resize resize = Resize::kNone;
  std::uint32_t side_px = 0;
  /// 1 to 100: every picture is encoded as JPEG, 4:2:0. Without it only what is resized is encoded
  /// again, as what it was: JPEG and lossy WebP at `kDefaultJpegQuality`, the others without loss.
  std::optional<int> jpeg_quality = std::nullopt;
  /// Lossless: JPEG becomes baseline Huffman with the best tables; its pixels stay.
  bool baseline = false;
  /// Lossless: JPEG gets a restart marker every so many rows of blocks; 0: as they are.
  unsigned restart_rows = 0;
  /// Every picture is decoded. Excludes the three above.
  std::optional<RawOptions> raw = std::nullopt;

  bool any() const noexcept;
};

/// Above what resized copies of ImageNet mostly have; of WebP too.
inline constexpr int kDefaultJpegQuality = 90;

}  // namespace feedrace::pack
