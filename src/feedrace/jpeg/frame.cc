// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/frame.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>

#include "feedrace/jpeg/entropy.h"

namespace feedrace::jpeg {
namespace {

// Marker codes of ITU-T T.81, table B.1.
constexpr unsigned kBaseline = 0xc0;
constexpr unsigned kExtendedHuffman = 0xc1;
constexpr unsigned kProgressive = 0xc2;
constexpr unsigned kLossless = 0xc3;
constexpr unsigned kHuffmanTables = 0xc4;
constexpr unsigned kArithmetic = 0xc9;
constexpr unsigned kArithmeticProgressive = 0xca;
constexpr unsigned kArithmeticLossless = 0xcb;
constexpr unsigned kArithmeticTables = 0xcc;
constexpr unsigned kStartOfScan = 0xda;
constexpr unsigned kQuantTables = 0xdb;
constexpr unsigned kRestartInterval = 0xdd;
constexpr unsigned kHierarchical = 0xde;
constexpr unsigned kApp0 = 0xe0;
constexpr unsigned kApp14 = 0xee;
constexpr unsigned kApp15 = 0xef;
constexpr unsigned kComment = 0xfe;

using Segment = std::span<const std::byte>;

unsigned byte_at(Segment segment, std::size_t at) { return std::to_integer<unsigned>(segment[at]); }

unsigned big16(Segment segment, std::size_t at) {
  return byte_at(segment, at) << 8 | byte_at(segment, at + 1);
}

bool begins_with(Segment segment, std::string_view text) {
  return segment.size() >= text.size() &&
         std::memcmp(segment.data(), text.data(), text.size()) == 0;
}

/// What a kind of frame that this decoder does not do is called.
const char* name_of_kind(unsigned marker) {
  switch (marker) {
    case kProgressive:
      return "progressive";
    case kLossless:
    case kArithmeticLossless:
      return "lossless";
    case kArithmetic:
    case kArithmeticProgressive:
    case kArithmeticTables:
      return "arithmetic coding";
    case kHierarchical:
      return "hierarchical";
    default:
      return "a kind of frame or segment";
  }
}

/// Puts a frame together, segment by segment. Each function gets a segment's content, without its
/// length; what it returns is unusual.
class FrameReader {
 public:
  explicit FrameReader(Frame& frame) noexcept : frame_(frame) {}

  const char* take(unsigned marker, Segment content) noexcept {
    switch (marker) {
      case kBaseline:
      case kExtendedHuffman:
        return take_frame(content);
      case kHuffmanTables:
        return take_huffman(content);
      case kQuantTables:
        return take_quant(content);
      case kRestartInterval:
        if (content.size() != 2) return "restart interval of an odd length";
        frame_.restart_interval = big16(content, 0);
        return nullptr;
      case kApp0:
        // libjpeg wants the whole header of it.
        if (content.size() < 14 || !begins_with(content, {"JFIF\0", 5})) return nullptr;
        if (byte_at(content, 5) != 1) return "revision of JFIF";  // Of which libjpeg warns.
        has_jfif_ = true;
        return nullptr;
      case kApp14:
        if (content.size() < 12 || !begins_with(content, "Adobe")) return nullptr;
        has_adobe_ = true;
        adobe_transform_ = byte_at(content, 11);
        return nullptr;
      default:
        return (marker > kApp0 && marker <= kApp15) || marker == kComment ? nullptr
                                                                          : name_of_kind(marker);
    }
  }

  const char* take_scan(Segment content) noexcept {
    if (frame_.component_count == 0) return "scan without a frame";
    const std::size_t count = frame_.component_count;
    if (content.size() != 4 + 2 * count || byte_at(content, 0) != count) return "several scans";
    for (std::size_t i = 0; i < count; ++i) {
      Component& component = frame_.components[i];
      if (byte_at(content, 1 + 2 * i) != ids_[i]) return "components in another order";
      component.dc_table = byte_at(content, 2 + 2 * i) >> 4;
      component.ac_table = byte_at(content, 2 + 2 * i) & 15U;
      if (component.dc_table > 3 || component.ac_table > 3) return "number of a Huffman table";
      const bool has_all = (known_dc_ >> component.dc_table & known_ac_ >> component.ac_table &
                            known_quant_ >> component.quant_table & 1U) != 0;
      if (!has_all) return "a table is missing";
    }
    const bool is_sequential = byte_at(content, 1 + 2 * count) == 0 &&
                               byte_at(content, 2 + 2 * count) == 63 &&
                               byte_at(content, 3 + 2 * count) == 0;
    if (!is_sequential) return "scan of a part of the coefficients";
    return find_colour();
  }

 private:
  const char* take_frame(Segment content) noexcept {
    if (frame_.component_count != 0) return "two frames";
    if (content.size() < 6) return "precision";
    const unsigned bits = byte_at(content, 0);
    if (bits != 8) return bits == 12 ? "12 bits" : "precision";
    const std::size_t count = byte_at(content, 5);
    if (count == 4) return "four components, as in CMYK";
    if ((count != 1 && count != 3) || content.size() != 6 + 3 * count) return "component count";
    frame_.height_px = big16(content, 1);
    frame_.width_px = big16(content, 3);
    // Above the second libjpeg refuses.
    constexpr std::uint32_t kMaxSidePx = 65'500;
    if (frame_.height_px == 0 || frame_.width_px == 0) return "no size";
    if (frame_.height_px > kMaxSidePx || frame_.width_px > kMaxSidePx) return "size";
    for (std::size_t i = 0; i < count; ++i) {
      Component& component = frame_.components[i];
      ids_[i] = byte_at(content, 6 + 3 * i);
      component.across = byte_at(content, 7 + 3 * i) >> 4;
      component.down = byte_at(content, 7 + 3 * i) & 15U;
      component.quant_table = byte_at(content, 8 + 3 * i);
      if (component.across == 0 || component.across > 4) return "sampling";
      if (component.down == 0 || component.down > 4) return "sampling";
      if (component.quant_table > 3) return "number of a quantisation table";
    }
    if (count == 3 && (ids_[0] == ids_[1] || ids_[0] == ids_[2] || ids_[1] == ids_[2])) {
      return "two components of one name";
    }
    frame_.component_count = static_cast<std::uint32_t>(count);
    return check_sampling();
  }

  /// Of a single component the factors mean nothing (T.81, A.2.2).
  const char* check_sampling() noexcept {
    const auto used = std::span(frame_.components).first(frame_.component_count);
    if (used.size() == 1) used[0].across = used[0].down = 1;
    std::uint32_t blocks = 0;
    for (const Component& component : used) {
      frame_.most_across = std::max(frame_.most_across, component.across);
      frame_.most_down = std::max(frame_.most_down, component.down);
      blocks += component.across * component.down;
    }
    if (blocks > kMaxMcuBlocks) return "blocks in an MCU";
    for (const Component& component : used) {
      const bool is_usual =
          (component.across == frame_.most_across || 2 * component.across == frame_.most_across ||
           4 * component.across == frame_.most_across) &&
          (component.down == frame_.most_down || 2 * component.down == frame_.most_down);
      if (!is_usual) return "sampling";
    }
    return nullptr;
  }

  const char* take_huffman(Segment content) noexcept {
    while (!content.empty()) {
      if (content.size() < 17) return "Huffman table";
      const unsigned kind = byte_at(content, 0);
      if ((kind & 0xefU) > 3) return "number of a Huffman table";
      HuffmanSpec spec;
      std::memcpy(spec.counts.data(), content.data() + 1, spec.counts.size());
      const std::size_t count =
          std::accumulate(spec.counts.begin(), spec.counts.end(), std::size_t{0});
      if (count > spec.symbols.size() || count > content.size() - 17) return "Huffman table";
      std::memcpy(spec.symbols.data(), content.data() + 17, count);
      const bool is_ac = kind >= 0x10;
      (is_ac ? frame_.ac : frame_.dc)[kind & 3U] = spec;
      (is_ac ? known_ac_ : known_dc_) |= 1U << (kind & 3U);
      content = content.subspan(17 + count);
    }
    return nullptr;
  }

  const char* take_quant(Segment content) noexcept {
    while (!content.empty()) {
      if (content.size() < 65 || byte_at(content, 0) > 3) return "quantisation table";
      const unsigned number = byte_at(content, 0);
      std::memcpy(frame_.quant[number].data(), content.data() + 1, 64);
      known_quant_ |= 1U << number;
      content = content.subspan(65);
    }
    return nullptr;
  }

  /// As libjpeg guesses (jdapimin.c, default_decompress_parms).
  const char* find_colour() noexcept {
    if (frame_.component_count == 1) {
      frame_.colour = ColourModel::kGrey;
      return nullptr;
    }
    frame_.colour = ColourModel::kYcc;
    if (has_jfif_) return nullptr;
    if (has_adobe_) {
      if (adobe_transform_ > 1) return "colour transform";
      if (adobe_transform_ == 0) frame_.colour = ColourModel::kRgb;
      return nullptr;
    }
    if (ids_[0] == 'R' && ids_[1] == 'G' && ids_[2] == 'B') frame_.colour = ColourModel::kRgb;
    return nullptr;
  }

  Frame& frame_;
  std::array<unsigned, 3> ids_{};
  unsigned known_dc_ = 0;
  unsigned known_ac_ = 0;
  unsigned known_quant_ = 0;
  unsigned adobe_transform_ = 0;
  bool has_jfif_ = false;
  bool has_adobe_ = false;
};

}  // namespace

const char* read_frame(std::span<const std::byte> encoded, Frame& frame) noexcept {
  frame = {};
  FrameReader reader(frame);
  if (encoded.size() < 2 || big16(encoded, 0) != 0xffd8) return "no start marker";
  std::size_t at = 2;
  while (at + 4 <= encoded.size()) {
    if (byte_at(encoded, at) != 0xff) return "bytes between segments";
    const unsigned marker = byte_at(encoded, at + 1);
    if (marker == 0xff) {  // A fill byte.
      ++at;
      continue;
    }
    const std::size_t length = big16(encoded, at + 2);
    if (length < 2 || length > encoded.size() - at - 2) return "length of a segment";
    const Segment content = encoded.subspan(at + 4, length - 2);
    at += 2 + length;
    if (marker == kStartOfScan) {
      frame.scan_at = at;
      return reader.take_scan(content);
    }
    if (const char* unusual = reader.take(marker, content)) return unusual;
  }
  return "no scan";
}

}  // namespace feedrace::jpeg
