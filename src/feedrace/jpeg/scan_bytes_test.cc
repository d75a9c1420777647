// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/scan_bytes.h"

#include <gtest/gtest.h>

#include "feedrace/jpeg/test_streams.h"
#include "feedrace/random.h"

namespace feedrace::jpeg {
namespace {

using testing::append;
using testing::Bytes;
using testing::bytes_of;

/// Two windows and a half.
constexpr std::size_t kLongBytes = 30'000;

Bytes random_bytes(SampleRandom& random, std::size_t count) {
  Bytes bytes;
  for (std::size_t i = 0; i < count; ++i)
    bytes.push_back(static_cast<std::byte>(random.below(255)));
  return bytes;
}

struct Data {
  Bytes bytes;  ///< Without stuffing.
  unsigned marker = 0;
  std::size_t marker_at = 0;
};

/// As T.81 has it, a byte at a time.
Data plain(const Bytes& encoded, std::size_t at = 0) {
  Data data;
  for (; at < encoded.size(); ++at) {
    if (encoded[at] == std::byte{0xff}) {
      if (at + 1 >= encoded.size()) break;
      if (encoded[at + 1] != std::byte{0}) {
        std::size_t code = at + 1;  // Behind the bytes that fill up.
        while (code < encoded.size() && encoded[code] == std::byte{0xff}) ++code;
        if (code == encoded.size()) break;
        data.marker = std::to_integer<unsigned>(encoded[code]);
        at = code - 1;
        break;
      }
      data.bytes.push_back(encoded[at++]);
    } else {
      data.bytes.push_back(encoded[at]);
    }
  }
  data.marker_at = at;
  return data;
}

/// Reads as the entropy decoder does, `step` bytes at a time, until the data ends.
Bytes read_all(ScanBytes& bytes, BitCursor& cursor, std::size_t step) {
  Bytes read;
  for (;;) {
    while (cursor.next <= bytes.limit()) {
      BitCursor ahead = cursor;
      for (std::size_t i = 0; i < step; ++i) {
        ++ahead.next;
        if (bytes.is_overrun(ahead)) return read;
        read.push_back(static_cast<std::byte>(*cursor.next));
        cursor = ahead;
      }
    }
    if (!bytes.advance(cursor)) return read;
  }
}

void expect_read(const Bytes& data, std::size_t step) {
  Bytes encoded = bytes_of({0xd8});  // Data follows a header, so it is somewhere, if empty.
  append(encoded, data);
  const Data expected = plain(encoded, 1);
  ScanBytes bytes;
  BitCursor cursor;
  bytes.start(encoded, 1, 0, cursor);
  EXPECT_EQ(read_all(bytes, cursor, step), expected.bytes);
  ASSERT_TRUE(bytes.is_finished(cursor));
  EXPECT_EQ(bytes.marker(), expected.marker);
}

TEST(ScanBytes, StuffingAtAndBesideEveryWindowBoundary) {
  SampleRandom random(1, 0, 0, 0);
  const Bytes sound = random_bytes(random, kLongBytes);
  // Where a window ends depends on where the one before it was left: many places are tried.
  for (std::size_t at = 12'200; at < 12'300; ++at) {
    for (const std::size_t repeats : {1U, 2U, 5U}) {
      Bytes encoded = sound;
      for (const std::size_t place : {at, at + 9'700, at + 11'900}) {
        for (std::size_t i = 0; i < repeats; ++i) {
          encoded[place + 2 * i] = std::byte{0xff};
          encoded[place + 2 * i + 1] = std::byte{0};
        }
      }
      append(encoded, bytes_of({0xff, 0xd9}));
      expect_read(encoded, 1 + at % 7);
      if (HasFailure()) FAIL() << at << " " << repeats;
    }
  }
}

TEST(ScanBytes, NothingButStuffing) {
  Bytes encoded;
  for (std::size_t i = 0; i < kLongBytes; ++i) append(encoded, bytes_of({0xff, 0}));
  append(encoded, bytes_of({0xff, 0xd9}));
  expect_read(encoded, 1);
  expect_read(encoded, 3);
}

TEST(ScanBytes, EveryLengthAroundAWindowWithAMarkerOrTheEndBehind) {
  SampleRandom random(2, 0, 0, 0);
  const Bytes sound = random_bytes(random, kLongBytes);
  for (std::size_t size = 0; size < 12'400; size += size == 40 ? 12'200 : 1) {
    for (const Bytes& end :
         {Bytes{}, bytes_of({0xff}), bytes_of({0xff, 0xd9}), bytes_of({0xff, 0xff, 0xd9}),
          bytes_of({0xff, 0, 0xff, 0xd0, 1}), bytes_of({0xff, 0, 0xff})}) {
      Bytes encoded(sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size));
      append(encoded, end);
      expect_read(encoded, 1);
      if (HasFailure()) FAIL() << size << " and " << end.size();
    }
  }
}

TEST(ScanBytes, GoesOnBehindEachMarker) {
  SampleRandom random(3, 0, 0, 0);
  Bytes encoded;
  for (unsigned i = 0; i < 20; ++i) {
    append(encoded, random_bytes(random, i == 7 ? kLongBytes : random.below(300)));
    append(encoded, bytes_of({0xff, 0, 0xff, 0xff, 0xff, 0xd0 + i % 8}));
  }
  append(encoded, bytes_of({1, 2, 0xff, 0xd9}));
  ScanBytes bytes;
  BitCursor cursor;
  bytes.start(encoded, 0, 0, cursor);
  std::size_t at = 0;
  for (unsigned i = 0; i <= 20; ++i) {
    const Data expected = plain(encoded, at);
    ASSERT_EQ(read_all(bytes, cursor, 1), expected.bytes) << i;
    ASSERT_TRUE(bytes.is_finished(cursor));
    ASSERT_EQ(bytes.marker(), i == 20 ? 0xd9 : 0xd0 + i % 8);
    if (i < 20) bytes.pass_marker(cursor);
    at = expected.marker_at + 2;
  }
}

TEST(ScanBytes, IsNotFinishedWithAByteLeftNorBehindTheEnd) {
  const Bytes encoded = bytes_of({1, 2, 3, 0xff, 0xd9});
  ScanBytes bytes;
  BitCursor cursor;
  bytes.start(encoded, 0, 0, cursor);
  const std::uint8_t* first = cursor.next;
  for (unsigned taken_bits = 0; taken_bits < 64; ++taken_bits) {
    // As the decoder leaves it: whole bytes passed, the rest of the last one still to be taken.
    cursor.next = first + (taken_bits + 7) / 8;
    cursor.available = (8 - taken_bits % 8) % 8;
    EXPECT_EQ(bytes.is_overrun(cursor), taken_bits > 24) << taken_bits;
    EXPECT_EQ(bytes.is_finished(cursor), taken_bits > 16 && taken_bits <= 24) << taken_bits;
  }
}

TEST(ScanBytes, BeginsWithinAByte) {
  for (unsigned skipped = 0; skipped < 8; ++skipped) {
    const Bytes encoded = bytes_of({0x77, 0xff, 0, 0xa5, 0xff, 0xd9});
    ScanBytes bytes;
    BitCursor cursor;
    bytes.start(encoded, 1, skipped, cursor);
    std::uint32_t bits = 0;  // 0xff, 0xa5 without the first bits.
    unsigned count = 0;
    for (; count < cursor.available; ++count) {
      bits = bits << 1 | static_cast<std::uint32_t>(cursor.bits >> (63 - count) & 1U);
    }
    for (; count < 16 - skipped; count += 8) bits = bits << 8 | *cursor.next++;
    EXPECT_EQ(bits, 0xffa5U & (0xffffU >> skipped)) << skipped;
  }
}

}  // namespace
}  // namespace feedrace::jpeg
