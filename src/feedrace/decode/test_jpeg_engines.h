// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <setjmp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <jpeglib.h>

#include "feedrace/decode/jpeg_decoder.h"
#include "feedrace/decode/libjpeg_decoder.h"
#include "feedrace/jpeg/frame.h"
#include "feedrace/jpeg/picture.h"

/// Our JPEG decoder against libjpeg-turbo, on sound and on hostile bytes.
namespace feedrace::decode::testing {

/// Plain libjpeg that takes damage as it comes and fills up with grey, as programs without a
/// handler of their own see it. Whole rows are written, none behind an error that ends it.
class LenientJpeg {
 public:
  /// Empty when there is not even a header of such a size.
  std::vector<std::uint8_t> decode(std::span<const std::byte> encoded, const ImageInfo& info) {
    std::vector<std::uint8_t> rgb(std::size_t{info.width_px} * info.height_px * 3);
    if (!read(encoded, info, rgb.data())) rgb.clear();
    jpeg_destroy_decompress(&cinfo_);
    return rgb;
  }

 private:
  static void leave(j_common_ptr cinfo) {
    longjmp(static_cast<LenientJpeg*>(cinfo->client_data)->jump_, 1);
  }
  static void say_nothing(j_common_ptr /*cinfo*/) {}

  bool read(std::span<const std::byte> encoded, const ImageInfo& info, std::uint8_t* rgb) {
    cinfo_.err = jpeg_std_error(&errors_);
    errors_.error_exit = leave;
    errors_.output_message = say_nothing;
    cinfo_.client_data = this;
    has_rows_ = false;
    jpeg_create_decompress(&cinfo_);
    if (setjmp(jump_) != 0) return has_rows_;
    jpeg_mem_src(&cinfo_, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
    jpeg_read_header(&cinfo_, TRUE);
    if (cinfo_.image_width != info.width_px || cinfo_.image_height != info.height_px) return false;
    cinfo_.out_color_space = JCS_RGB;
    cinfo_.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&cinfo_);
    has_rows_ = true;
    while (cinfo_.output_scanline < cinfo_.output_height) {
      JSAMPROW row = rgb + std::size_t{cinfo_.output_scanline} * cinfo_.output_width * 3;
      jpeg_read_scanlines(&cinfo_, &row, 1);
    }
    return true;
  }

  jpeg_decompress_struct cinfo_{};
  jpeg_error_mgr errors_{};
  jmp_buf jump_{};
  bool has_rows_ = false;
};

/// Decodes the same bytes by ours, which falls back on libjpeg-turbo, and by libjpeg-turbo alone.
/// What comes back says what is wrong with ours; empty: nothing.
class JpegEngines {
 public:
  using Bytes = std::span<const std::byte>;

  explicit JpegEngines(const DecodeLimits& limits = {}) : limits_(limits) {
    const auto entropy = jpeg::entropy_kernels();
    const auto pixels = jpeg::pixel_kernels();
    for (std::size_t i = 0; i + 1 < std::min(entropy.size(), pixels.size()); ++i) {
      slower_.push_back(std::make_unique<jpeg::PictureDecoder>(*entropy[i], *pixels[i]));
    }
    if (!entropy.empty() && !pixels.empty()) fastest_ = jpeg::PictureDecoder::make();
  }

  JpegDecoder& ours() noexcept { return ours_; }

  /// How whole pictures ended, for tests to see that they met what they are about.
  struct Outcomes {
    std::size_t by_ours = 0;  ///< Pixels that ours alone gave.
    std::size_t pixels = 0;
    std::size_t failures = 0;
    std::size_t more_complaints = 0;  ///< Damage that libjpeg-turbo keeps quiet about.
  };
  const Outcomes& outcomes() const noexcept { return outcomes_; }

  /// What the header says; empty where libjpeg-turbo refuses it.
  const ImageInfo* open(Bytes encoded) {
    info_ = theirs_.probe(encoded, limits_);
    return info_ ? &*info_ : nullptr;
  }

  std::string header_fault(Bytes encoded) {
    const bool is_read = open(encoded) != nullptr;
    const Result<ImageInfo> own = ours_.probe(encoded, limits_);
    if (own && !is_read) return "a header that libjpeg-turbo refuses: " + info_.error().message;
    if (!own && is_read) return "a header refused: " + own.error().message;
    if (!own) {
      if (own.error().code == info_.error().code) return "";
      return fmt::format("another failure: {}; {}", own.error().message, info_.error().message);
    }
    const bool is_same = own->width_px == info_->width_px && own->height_px == info_->height_px &&
                         own->component_count == info_->component_count &&
                         own->orientation == info_->orientation;
    return is_same ? "" : "a header read in another way";
  }

  /// Of the whole picture: both fail, or both give the same pixels and ours complains where
  /// libjpeg-turbo does.
  std::string whole_fault(Bytes encoded) {
    if (std::string fault = header_fault(encoded); !fault.empty() || !info_) return fault;
    const Region whole = info_->whole();
    std::string fault = pixel_fault(encoded, whole, whole.height_px);
    if (!fault.empty()) return fault;
    if (own_pixels_ && !their_pixels_) {
      return "pixels, but libjpeg-turbo: " + their_pixels_.error().message;
    }
    if (own_pixels_ && ours_.complaint().empty() && !theirs_.complaint().empty()) {
      return "no complaint, but libjpeg-turbo: " + theirs_.complaint();
    }
    ++(own_pixels_ ? outcomes_.pixels : outcomes_.failures);
    if (own_pixels_ && ours_.engine() == JpegEngine::kFeedrace) ++outcomes_.by_ours;
    if (own_pixels_ && !ours_.complaint().empty() && theirs_.complaint().empty()) {
      ++outcomes_.more_complaints;
    }
    whole_ = their_pixels_ ? *their_pixels_ : std::vector<std::uint8_t>{};
    return kernel_fault(encoded, whole);
  }

  /// Of a region, after `whole_fault()` found sound pixels: ours gives those, cut.
  std::string cut_fault(Bytes encoded, const Region& region, std::uint32_t step_rows) {
    own_pixels_ = decode(ours_, encoded, region, step_rows);
    if (!own_pixels_) return "a failure: " + own_pixels_.error().message;
    return *own_pixels_ == cut(whole_, info_->width_px, region) ? ""
                                                                : "other pixels than the whole";
  }

  /// Of a region of what `open()` found: where libjpeg-turbo gives pixels ours gives the same.
  /// Where it fails, over damage that ours has no need to read, the pixels are those that libjpeg
  /// gives in spite of it.
  std::string region_fault(Bytes encoded, const Region& region, std::uint32_t step_rows) {
    if (std::string fault = pixel_fault(encoded, region, step_rows); !fault.empty()) return fault;
    if (own_pixels_ && !their_pixels_) {
      const std::vector<std::uint8_t> whole = lenient_.decode(encoded, *info_);
      if (whole.empty() || cut(whole, info_->width_px, region) != *own_pixels_) {
        return "other pixels than libjpeg, which fails: " + their_pixels_.error().message;
      }
    }
    return kernel_fault(encoded, region);
  }

 private:
  using Pixels = Result<std::vector<std::uint8_t>>;

  static std::vector<std::uint8_t> cut(const std::vector<std::uint8_t>& whole,
                                       std::uint32_t width_px, const Region& region) {
    std::vector<std::uint8_t> out;
    for (std::size_t y = region.y_px; y < region.y_px + region.height_px; ++y) {
      const auto from =
          whole.begin() + static_cast<std::ptrdiff_t>((y * width_px + region.x_px) * 3);
      out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(region.width_px) * 3);
    }
    return out;
  }

  Pixels decode(Decoder& decoder, Bytes encoded, const Region& region, std::uint32_t step_rows) {
    if (auto begun = decoder.begin(encoded, region, limits_); !begun) return begun.error();
    const std::size_t row_bytes = std::size_t{region.width_px} * 3;
    std::vector<std::uint8_t> rgb(row_bytes * region.height_px);
    for (std::uint32_t y = 0; y < region.height_px; y += step_rows) {
      const std::uint32_t count = std::min(step_rows, region.height_px - y);
      if (auto read = decoder.read_rows(rgb.data() + y * row_bytes, row_bytes, count); !read) {
        return read.error();
      }
    }
    return rgb;
  }

  std::string pixel_fault(Bytes encoded, const Region& region, std::uint32_t step_rows) {
    own_pixels_ = decode(ours_, encoded, region, step_rows);
    their_pixels_ = decode(theirs_, encoded, region, region.height_px);
    if (!their_pixels_) return "";
    if (!own_pixels_) return "a failure: " + own_pixels_.error().message;
    if (*own_pixels_ == *their_pixels_) return "";
    const auto at = std::mismatch(own_pixels_->begin(), own_pixels_->end(), their_pixels_->begin());
    const auto byte = static_cast<std::size_t>(at.first - own_pixels_->begin());
    return fmt::format("pixels differ from {},{} of {}x{} on: {} instead of {}",
                       byte / 3 % region.width_px, byte / 3 / region.width_px, region.width_px,
                       region.height_px, *at.first, *at.second);
  }

  /// The sets of loops of this machine give the same up to the row where one of them stops: levels
  /// that no picture has are seen by some sooner than by others.
  std::string kernel_fault(Bytes encoded, const Region& region) {
    jpeg::Frame frame;
    if (slower_.empty() || jpeg::read_frame(encoded, frame) != nullptr) return "";
    const jpeg::Window window{region.x_px, region.y_px, region.width_px, region.height_px};
    const std::size_t row_bytes = std::size_t{region.width_px} * 3;
    const auto decode_rows = [&](jpeg::PictureDecoder& decoder) {
      std::vector<std::uint8_t> rgb(row_bytes * region.height_px);
      if (!decoder.begin(encoded, frame, window)) return std::vector<std::uint8_t>{};
      rgb.resize(row_bytes * decoder.read_rows(rgb.data(), row_bytes, region.height_px));
      return rgb;
    };
    const std::vector<std::uint8_t> expected = decode_rows(*fastest_);
    for (const auto& decoder : slower_) {
      const std::vector<std::uint8_t> rgb = decode_rows(*decoder);
      const auto common = static_cast<std::ptrdiff_t>(std::min(rgb.size(), expected.size()));
      if (!std::equal(rgb.begin(), rgb.begin() + common, expected.begin())) {
        return "sets of loops differ";
      }
    }
    return "";
  }

  const DecodeLimits limits_;
  JpegDecoder ours_;
  LibjpegDecoder theirs_;
  LenientJpeg lenient_;
  std::unique_ptr<jpeg::PictureDecoder> fastest_;
  std::vector<std::unique_ptr<jpeg::PictureDecoder>> slower_;
  Result<ImageInfo> info_ = Failure{};
  Pixels own_pixels_ = Failure{};
  Pixels their_pixels_ = Failure{};
  std::vector<std::uint8_t> whole_;  // libjpeg-turbo's.
  Outcomes outcomes_;
};

}  // namespace feedrace::decode::testing
