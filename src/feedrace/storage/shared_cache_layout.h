// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bytes of a shared cache's file: Header, table of slots, payload. All processes that share it
// map the same bytes, so a change here is a new kCacheVersion.

#include <pthread.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "feedrace/storage/shared_cache.h"

namespace feedrace::storage {

using SharedWord = std::atomic<std::uint64_t>;
static_assert(SharedWord::is_always_lock_free, "a lock inside one process guards nothing");

inline constexpr std::size_t kCachePageBytes = 4096;
inline constexpr std::size_t kSeats = 1024;
inline constexpr std::uint64_t kCacheVersion = 1;
inline constexpr std::array<char, 16> kCacheMagic = {"feedrace cache\n"};

static_assert(kSeats == 1024, "claimed_state() has ten bits for a seat");

/// One open SharedCache. While it lives it holds a lock on the seat's byte, which ends with the
/// process whatever ends that.
struct Seat {
  SharedWord turn;           ///< Goes up with each that takes the seat.
  SharedWord pid;            ///< Of who sits there, in its own namespace.
  SharedWord pid_namespace;  ///< Inode; 0 when unknown.
};

/// The file's first bytes, written before it gets its name.
struct CacheHead {
  std::array<char, 16> magic;
  std::uint64_t version;
  std::uint64_t header_bytes;  ///< sizeof(Header): it holds a type of the C library.
  std::uint64_t limit_bytes;
  std::uint64_t is_ready;  ///< 1 once all that follows is in place; its maker's lock guards it.
};

struct Header {
  CacheHead head;
  pthread_mutex_t mutex;  ///< Robust and shared. Guards new slots.

  // Written under `mutex`. What a killed holder left is worked out from the slots.
  alignas(64) SharedWord used_bytes;
  SharedWord used_slots;

  alignas(64) SharedWord entries;
  SharedWord filled_bytes;

  alignas(64) std::array<Seat, kSeats> seats;
};

/// What a slot's state word says in its lowest two bits. A claim has its claimer above them.
enum class SlotKind : std::uint64_t {
  kEmpty,      ///< Its other members mean nothing.
  kAbandoned,  ///< Has key and place; whoever wants may claim it.
  kReady,      ///< For good.
  kClaimed,
};

/// A sample. Key and place are set once, under the mutex, before `state` leaves kEmpty; all later
/// steps are one exchange of `state`.
struct alignas(64) Slot {
  SharedWord state;
  SharedCache::Key key;
  std::uint64_t offset_bytes;  ///< Of the payload.
  std::uint64_t room_bytes;
  std::uint64_t size_bytes;  ///< From kReady on, and `checksum`.
  std::uint64_t checksum;    ///< XXH3, 64 bits.
};
static_assert(sizeof(Slot) == 64);

inline SlotKind kind_of(std::uint64_t state) noexcept { return static_cast<SlotKind>(state & 3); }

inline std::uint64_t plain_state(SlotKind kind) noexcept {
  return static_cast<std::uint64_t>(kind);
}

/// No two users ever have the same.
inline std::uint64_t claimed_state(std::size_t seat, std::uint64_t turn) noexcept {
  return plain_state(SlotKind::kClaimed) | seat << 2 | turn << 12;
}

inline std::size_t seat_of(std::uint64_t claimed_state) noexcept {
  return claimed_state >> 2 & (kSeats - 1);
}

inline std::uint64_t turn_of(std::uint64_t claimed_state) noexcept { return claimed_state >> 12; }

constexpr std::uint64_t round_to_page(std::uint64_t bytes) noexcept {
  return (bytes + kCachePageBytes - 1) / kCachePageBytes * kCachePageBytes;
}

/// Where things are in the file. All follows from the limit.
struct CacheShape {
  std::uint64_t payload_bytes;
  std::uint64_t slot_count;
  std::uint64_t most_slots;  ///< That may be used: full tables are slow to search.
  std::uint64_t table_at_bytes;
  std::uint64_t payload_at_bytes;
  std::uint64_t file_bytes;
};

/// One slot for 8 to 16 KiB, so samples of 22 KiB and more on average reach the limit; the table
/// costs at most 0.8 %.
constexpr CacheShape shape_of(std::uint64_t limit_bytes) noexcept {
  CacheShape shape{};
  shape.payload_bytes = limit_bytes / kCachePageBytes * kCachePageBytes;
  shape.slot_count = std::bit_ceil(limit_bytes / (std::uint64_t{16} << 10));
  shape.most_slots = shape.slot_count / 4 * 3;
  shape.table_at_bytes = round_to_page(sizeof(Header));
  shape.payload_at_bytes = round_to_page(shape.table_at_bytes + shape.slot_count * sizeof(Slot));
  shape.file_bytes = shape.payload_at_bytes + shape.payload_bytes;
  return shape;
}

inline constexpr std::uint64_t kLeastLimitBytes = std::uint64_t{1} << 20;
/// More than any machine's memory; keeps the sums above far from overflow.
inline constexpr std::uint64_t kMostLimitBytes = std::uint64_t{1} << 50;

}  // namespace feedrace::storage
