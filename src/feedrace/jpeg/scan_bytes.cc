// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/scan_bytes.h"

#include <algorithm>
#include <cstring>

namespace feedrace::jpeg {
namespace {

constexpr std::uint8_t kEscape = 0xff;
constexpr unsigned kFirstRestart = 0xd0;
/// Behind the end zeros are read: never more than one MCU too many.
constexpr std::size_t kPaddingBytes = kMaxMcuBytes + 4 * kLoadBytes;

}  // namespace

ScanBytes::ScanBytes() : window_(new std::uint8_t[kWindowBytes + kPaddingBytes]) {}

void ScanBytes::start(std::span<const std::byte> encoded, std::size_t at, unsigned skipped_bits,
                      BitCursor& cursor) {
  begin_ = reinterpret_cast<const std::uint8_t*>(encoded.data());
  source_ = begin_ + at;
  source_end_ = begin_ + encoded.size();
  is_ended_ = false;
  marker_ = 0;
  fill(window_.get(), kFirstBytes);
  cursor = {window_.get(), 0, 0};
  if (skipped_bits == 0) return;
  cursor.bits = std::uint64_t{*cursor.next++} << (56 + skipped_bits);
  cursor.available = 8 - skipped_bits;
}

/// Copies to `to` as far as the window reaches, and leaves the zeros of stuffing out.
void ScanBytes::fill(std::uint8_t* to, std::size_t window_bytes) {
  known_ = to;
  known_source_ = source_;
  const std::uint8_t* window_end = window_.get() + window_bytes;
  while (to != window_end && !is_ended_) {
    const auto room = static_cast<std::size_t>(std::min(window_end - to, source_end_ - source_));
    const auto* escape = static_cast<const std::uint8_t*>(std::memchr(source_, kEscape, room));
    const std::size_t plain = escape == nullptr ? room : static_cast<std::size_t>(escape - source_);
    std::memcpy(to, source_, plain);
    to += plain;
    source_ += plain;
    if (escape == nullptr) {
      is_ended_ = source_ == source_end_;
    } else if (source_end_ - source_ >= 2 && source_[1] == 0) {
      *to++ = kEscape;
      source_ += 2;
    } else {
      end_data();
    }
  }
  end_ = to;
  if (is_ended_) std::memset(to, 0, kPaddingBytes);
  limit_ = is_ended_ ? end_ + kLoadBytes : end_ - kMaxMcuBytes - 2 * kLoadBytes;
}

/// Any number of bytes 0xff may stand in front of a marker (T.81, B.1.1.2).
void ScanBytes::end_data() {
  is_ended_ = true;
  if (source_ == source_end_) return;
  const std::uint8_t* code = source_ + 1;
  while (code != source_end_ && *code == kEscape) ++code;
  // Behind such bytes a zero is no stuffing, and no marker.
  if (code == source_end_ || *code == 0) return;
  source_ = code - 1;
  marker_ = *code;
}

bool ScanBytes::advance(BitCursor& cursor) {
  if (is_ended_) return false;
  // Bytes in front of the next one too, as bits of theirs may be unread: `place` looks at them.
  const auto behind = std::min<std::ptrdiff_t>(cursor.next - window_.get(), kLoadBytes);
  const auto kept = static_cast<std::size_t>(end_ - cursor.next + behind);
  std::memmove(window_.get(), cursor.next - behind, kept);
  cursor.next = window_.get() + behind;
  fill(window_.get() + kept);
  return true;
}

ScanBytes::Place ScanBytes::place(const BitCursor& cursor) {
  const std::uint8_t* next = cursor.next - (cursor.available + 7) / 8;
  // Behind each 0xff of the window a zero was left out.
  if (next >= known_) {
    known_source_ += next - known_ + std::count(known_, next, kEscape);
  } else {
    known_source_ -= known_ - next + std::count(next, known_, kEscape);
  }
  known_ = next;
  return {static_cast<std::size_t>(known_source_ - begin_), (8 - cursor.available % 8) % 8};
}

bool ScanBytes::is_overrun(const BitCursor& cursor) const noexcept {
  return is_ended_ && (cursor.next - end_) * 8 > static_cast<std::ptrdiff_t>(cursor.available);
}

bool ScanBytes::is_finished(BitCursor& cursor) {
  // The marker may lie just behind the window.
  if (!is_ended_ && !advance(cursor)) return false;
  const auto left = static_cast<std::ptrdiff_t>(cursor.available) - (cursor.next - end_) * 8;
  return is_ended_ && left >= 0 && left < 8;
}

void ScanBytes::pass_marker(BitCursor& cursor) {
  source_ += 2;
  is_ended_ = false;
  marker_ = 0;
  fill(window_.get(), kFirstBytes);
  cursor = {window_.get(), 0, 0};
}

/// From the bytes that were not copied yet.
void ScanBytes::find_marker() {
  while (!is_ended_) {
    const auto left = static_cast<std::size_t>(source_end_ - source_);
    const auto* escape = static_cast<const std::uint8_t*>(std::memchr(source_, kEscape, left));
    source_ = escape == nullptr ? source_end_ : escape;
    if (source_end_ - source_ >= 2 && source_[1] == 0) {
      source_ += 2;
    } else {
      end_data();
    }
  }
}

bool ScanBytes::pass_restarts(std::size_t count, unsigned next, BitCursor& cursor) {
  for (std::size_t i = 0; i < count; ++i) {
    find_marker();
    if (marker_ != kFirstRestart + (next + i) % 8) return false;
    if (i + 1 == count) break;
    source_ += 2;
    is_ended_ = false;
  }
  pass_marker(cursor);
  return true;
}

}  // namespace feedrace::jpeg
