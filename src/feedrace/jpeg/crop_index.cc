// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/crop_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <xxhash.h>

#include "feedrace/jpeg/entropy.h"

namespace feedrace::jpeg {
namespace {

constexpr std::byte kVersion{1};
constexpr std::size_t kCheckBytes = 8;
constexpr std::size_t kHeadBytes = 1 + kCheckBytes;
/// An offset that finds the index among those of other pictures.
constexpr std::size_t kOffsetBytes = 8;
/// Of a varint of 64 bits.
constexpr unsigned kMaxShift = 63;
/// What `Scan` bears, and far above what pictures have.
constexpr std::int64_t kMaxDc = 1 << 24;

std::uint64_t check_of(std::span<const std::byte> numbers, std::span<const std::byte> encoded) {
  const XXH64_hash_t file = XXH3_64bits(encoded.data(), encoded.size());
  return XXH3_64bits_withSeed(numbers.data(), numbers.size(), file);
}

/// Small numbers of either sign as small ones: 0, -1, 1, -2 become 0, 1, 2, 3.
std::uint64_t fold(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1U ^ static_cast<std::uint64_t>(value >> 63);
}

std::int64_t unfold(std::uint64_t code) {
  return static_cast<std::int64_t>(code >> 1U ^ (~(code & 1U) + 1U));
}

std::uint64_t position_bits(const ScanPlace& place) {
  return std::uint64_t{8} * place.at + place.skipped_bits;
}

std::size_t varint_bytes(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1U)) + 6) / 7;
}

/// What one place needs behind another: bits between them, and a difference for each component.
struct Steps {
  std::array<std::uint64_t, 4> numbers{};

  Steps(const ScanPlace& from, const ScanPlace& to) {
    numbers[0] = position_bits(to) - position_bits(from);
    for (std::size_t i = 0; i < to.dc.size(); ++i) {
      numbers[1 + i] = fold(std::int64_t{to.dc[i]} - from.dc[i]);
    }
  }
};

/// The places of all MCUs of a picture, of which an index takes some.
class PlaceList {
 public:
  PlaceList(const Frame& frame, std::vector<ScanPlace> places)
      : columns_(frame.mcu_columns()),
        number_count_(1 + frame.component_count),
        places_(std::move(places)) {}

  std::size_t index_bytes(std::uint32_t step) const {
    std::size_t bytes = kHeadBytes + varint_bytes(step);
    for_each(step, [&](std::uint64_t number) { bytes += varint_bytes(number); });
    return bytes;
  }

  std::vector<std::byte> numbers(std::uint32_t step) const {
    std::vector<std::byte> bytes;
    const auto put = [&](std::uint64_t number) {
      for (; number >= 0x80; number >>= 7U) {
        bytes.push_back(std::byte(number & 0x7fU) | std::byte{0x80});
      }
      bytes.push_back(std::byte(number));
    };
    put(step);
    for_each(step, put);
    return bytes;
  }

  /// The smallest step whose index has at most so many bytes; nothing when none has.
  std::optional<std::uint32_t> smallest_step(std::size_t most_bytes) const {
    // Each number has a byte at least, so that smaller steps need not be tried.
    const std::size_t most_places = most_bytes / number_count_ + 1;
    for (auto step = static_cast<std::uint32_t>(
             std::min<std::size_t>(places_.size() / most_places + 1, columns_));
         step <= columns_; ++step) {
      if (index_bytes(step) <= most_bytes) return step;
    }
    return std::nullopt;
  }

 private:
  template <typename Take>
  void for_each(std::uint32_t step, const Take& take) const {
    const ScanPlace* from = places_.data();
    for (std::size_t row = 0; row < places_.size(); row += columns_) {
      for (std::size_t i = row; i < row + columns_; i += step) {
        if (i == 0) continue;
        const Steps steps(*from, places_[i]);
        for (std::size_t n = 0; n < number_count_; ++n) take(steps.numbers[n]);
        from = &places_[i];
      }
    }
  }

  std::uint32_t columns_;
  std::size_t number_count_;
  std::vector<ScanPlace> places_;
};

/// The place of each MCU; nothing when the scan is damaged or no scan of ours.
std::optional<std::vector<ScanPlace>> walk(std::span<const std::byte> encoded, const Frame& frame) {
  TableCache tables;
  Scan scan(*entropy_kernels().back());
  if (!scan.start(encoded, frame, tables)) return std::nullopt;
  const std::size_t mcu_count = std::size_t{frame.mcu_columns()} * frame.mcu_rows();
  std::vector<ScanPlace> places;
  for (std::size_t i = 0; i < mcu_count; ++i) {
    places.push_back(scan.place());
    if (!scan.walk(1)) return std::nullopt;
  }
  if (!scan.is_finished()) return std::nullopt;
  return places;
}

/// Empty for a picture that may have one; else why it has none.
std::string why_not(std::span<const std::byte> encoded, const char* unusual, const Frame& frame) {
  const bool is_jpeg =
      encoded.size() >= 2 && encoded[0] == std::byte{0xff} && encoded[1] == std::byte{0xd8};
  if (!is_jpeg) return "not JPEG";
  if (unusual != nullptr) return std::string("left to libjpeg-turbo (") + unusual + ")";
  if (entropy_kernels().empty()) return "left to libjpeg-turbo (a machine without SSE4 or NEON)";
  const bool has_markers =
      frame.restart_interval != 0 && frame.restart_interval <= frame.mcu_columns();
  return has_markers ? "need none (restart markers)" : "";
}

/// Numbers from bytes that may be cut or damaged.
class NumberReader {
 public:
  explicit NumberReader(std::span<const std::byte> bytes)
      : next_(reinterpret_cast<const std::uint8_t*>(bytes.data())), end_(next_ + bytes.size()) {}

  std::uint64_t take() {
    if (next_ != end_ && *next_ < 0x80) return *next_++;
    std::uint64_t value = 0;
    for (unsigned shift = 0; next_ != end_ && shift <= kMaxShift; shift += 7) {
      const std::uint8_t one = *next_++;
      value |= std::uint64_t{one & 0x7fU} << shift;
      if (one < 0x80) return value;
    }
    is_cut_ = true;
    return 0;
  }

  std::size_t left() const { return static_cast<std::size_t>(end_ - next_); }
  bool is_cut() const { return is_cut_; }

 private:
  const std::uint8_t* next_;
  const std::uint8_t* end_;
  bool is_cut_ = false;
};

}  // namespace

std::optional<std::vector<std::byte>> make_crop_index(std::span<const std::byte> encoded,
                                                      std::string* why_none) {
  const auto none = [why_none](std::string reason) {
    if (why_none != nullptr) *why_none = std::move(reason);
    return std::nullopt;
  };
  Frame frame;
  const char* unusual = read_frame(encoded, frame);
  if (std::string reason = why_not(encoded, unusual, frame); !reason.empty()) {
    return none(std::move(reason));
  }
  const std::size_t most_bytes = encoded.size() * 3 / 200;
  if (most_bytes < kOffsetBytes) return none("too small");
  std::optional<std::vector<ScanPlace>> places = walk(encoded, frame);
  if (!places) return none("damaged");
  const PlaceList list(frame, *std::move(places));
  const auto step = list.smallest_step(most_bytes - kOffsetBytes);
  if (!step) return none("too small");
  const std::vector<std::byte> numbers = list.numbers(*step);
  const std::uint64_t check = check_of(numbers, encoded);
  std::vector<std::byte> bytes = {kVersion};
  for (unsigned i = 0; i < kCheckBytes; ++i) bytes.push_back(std::byte(check >> (8 * i) & 0xffU));
  bytes.insert(bytes.end(), numbers.begin(), numbers.end());
  return bytes;
}

const char* CropIndex::read(std::span<const std::byte> bytes, std::span<const std::byte> encoded,
                            const Frame& frame) {
  places_.clear();
  if (bytes.size() < kHeadBytes) return "damaged";
  if (bytes[0] != kVersion) return "of another version";
  std::uint64_t check = 0;
  for (unsigned i = 0; i < kCheckBytes; ++i) {
    check |= std::to_integer<std::uint64_t>(bytes[1 + i]) << (8 * i);
  }
  const auto content = bytes.subspan(kHeadBytes);
  if (check != check_of(content, encoded)) return kOfAnotherFile;
  const char* refusal = read_places(content, encoded.size(), frame);
  if (refusal != nullptr) places_.clear();
  return refusal;
}

/// The check is no proof against bytes that were made to pass it: they can lead to wrong pixels,
/// but to no place outside of the file.
const char* CropIndex::read_places(std::span<const std::byte> bytes, std::size_t file_bytes,
                                   const Frame& frame) {
  constexpr const char* kContradiction = "in contradiction to its picture";
  NumberReader numbers(bytes);
  const std::uint64_t step = numbers.take();
  const std::uint32_t columns = frame.mcu_columns();
  if (step == 0 || step > columns) return kContradiction;
  step_ = static_cast<std::uint32_t>(step);
  a_row_ = (columns + step_ - 1) / step_;
  const std::size_t count = a_row_ * frame.mcu_rows();
  if ((count - 1) * (1 + frame.component_count) > numbers.left()) return kContradiction;
  places_.resize(count);
  const std::uint64_t file_bits = std::uint64_t{8} * file_bytes;
  std::uint64_t at_bits = std::uint64_t{8} * frame.scan_at;
  std::array<std::int64_t, 3> dc{};
  std::size_t mcu = 0;
  std::size_t row_begin = 0;
  places_[0] = {frame.scan_at, 0, {}, 0};
  for (std::size_t i = 1; i < count; ++i) {
    mcu += step_;
    if (mcu >= row_begin + columns) mcu = row_begin += columns;
    const std::uint64_t bits = numbers.take();
    if (bits == 0 || bits >= file_bits - at_bits) return kContradiction;
    at_bits += bits;
    ScanPlace& place = places_[i];
    place.at = static_cast<std::size_t>(at_bits / 8);
    place.skipped_bits = static_cast<unsigned>(at_bits % 8);
    place.mcu = mcu;
    for (std::size_t c = 0; c < frame.component_count; ++c) {
      const std::int64_t step_dc = unfold(numbers.take());
      if (step_dc > 2 * kMaxDc || step_dc < -2 * kMaxDc) return kContradiction;
      dc[c] += step_dc;
      if (dc[c] > kMaxDc || dc[c] < -kMaxDc) return kContradiction;
      place.dc[c] = static_cast<std::int32_t>(dc[c]);
    }
  }
  return numbers.is_cut() || numbers.left() != 0 ? kContradiction : nullptr;
}

}  // namespace feedrace::jpeg
