// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "feedrace/jpeg/crop_index.h"
#include "feedrace/jpeg/frame.h"
#include "feedrace/jpeg/huffman.h"
#include "feedrace/jpeg/pixels.h"
#include "feedrace/jpeg/scan.h"

namespace feedrace::jpeg {

/// A rectangle of a picture, in pixels from its top left corner.
struct Window {
  std::uint32_t x_px = 0;
  std::uint32_t y_px = 0;
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
};

/// The samples of one component: two rows of MCUs in turn, as wide as the window needs.
struct SamplePlane {
  std::size_t across = 1;    ///< Blocks of an MCU beside each other,
  std::size_t down = 1;      ///< and above each other.
  std::size_t shrink_x = 1;  ///< The picture's pixels a sample, 1, 2 or 4;
  std::size_t shrink_y = 1;  ///< 1 or 2.
  std::size_t width = 0;     ///< Samples of a whole row of the picture (downsampled width).
  std::size_t height = 0;
  std::size_t first_block = 0;  ///< Blocks of the component that are transformed, in a row.
  std::size_t block_count = 0;
  std::size_t row_bytes = 0;
  std::size_t coefficient_step = 0;  ///< From one row of blocks to the next.
  std::vector<std::int16_t> coefficients;
  std::vector<std::uint8_t> last;
  std::vector<std::uint8_t> samples;
  std::array<std::int16_t, 64> quant{};
};

/// Decodes a window of a picture to RGB, row by row, reading only what the rows need. One instance
/// serves one thread, picture after picture, and keeps its memory between them.
///
/// Whatever is damaged ends it: rows that were written before are those of a sound picture.
/// Somebody else (libjpeg) is to say what is wrong.
class PictureDecoder {
 public:
  /// Null where this machine has no instructions that the loops are written for.
  static std::unique_ptr<PictureDecoder> make();

  PictureDecoder(const EntropyKernels& entropy, const PixelKernels& pixels) noexcept
      : scan_(entropy), pixels_(&pixels) {}

  /// What it will hold for such a window, about.
  static std::uint64_t memory_bytes(const Frame& frame, const Window& window) noexcept;

  /// `encoded` must stay until the last row is read; `window` is not empty and lies inside.
  /// `crops`: places of this picture, which stay as long; null where there are none. With them only
  /// blocks from the last place in front of the window's are decoded, row by row.
  [[nodiscard]] bool begin(std::span<const std::byte> encoded, const Frame& frame,
                           const Window& window, const CropIndex* crops = nullptr);

  /// Writes the next `row_count` rows of the window, `3 * width_px` bytes each, `row_bytes` apart.
  /// Of a row nothing is written behind its end. Returns how many were written: fewer when damage
  /// was met.
  [[nodiscard]] std::uint32_t read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                                        std::uint32_t row_count);

  /// What was met; null: nothing yet. A text that lives for ever.
  const char* damage() const noexcept { return damage_; }

  /// Memory kept for the next picture.
  std::size_t scratch_bytes() const noexcept;

 private:
  void place_plane(SamplePlane& plane, const Component& component);
  bool decode_until(std::uint32_t mcu_row);
  bool decode_mcu_row();
  bool go_to(std::uint32_t mcu_row, std::uint32_t mcu_column);
  bool stop(const char* damage) noexcept;
  bool transform_mcu_row();
  void aim_blocks();
  std::uint8_t* sample_row(SamplePlane& plane, std::int64_t row) noexcept;
  const std::uint8_t* full_row(std::size_t component, std::uint32_t y);
  void write_row(std::uint32_t y, std::uint8_t* rgb);

  Frame frame_;
  Window window_;
  TableCache tables_;
  Scan scan_;
  const CropIndex* crops_ = nullptr;
  const PixelKernels* pixels_;
  std::array<SamplePlane, 3> planes_;
  std::array<std::vector<std::uint8_t>, 3> wide_;  // Rows of chroma, upsampled.
  std::uint32_t first_mcu_ = 0;  // Column of MCUs that are decoded: [first_mcu_, end_mcu_).
  std::uint32_t end_mcu_ = 0;
  std::uint32_t context_rows_ = 0;    // Rows of pixels above and below that a row's chroma needs.
  std::uint32_t last_mcu_row_ = 0;    // That is needed.
  std::uint32_t next_mcu_row_ = 0;    // To be decoded.
  std::uint32_t first_kept_row_ = 0;  // MCU rows above are only walked through.
  std::uint32_t rows_done_ = 0;
  const char* damage_ = nullptr;
};

}  // namespace feedrace::jpeg
