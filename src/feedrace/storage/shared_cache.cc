// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/shared_cache.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "feedrace/core/text.h"
#include "feedrace/storage/failures.h"
#include "feedrace/storage/shared_cache_file.h"
#include "feedrace/storage/shared_cache_layout.h"
#include "feedrace/storage/shared_cache_lock.h"

namespace feedrace::storage {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

void count(std::atomic<std::uint64_t>& counter) noexcept { counter.fetch_add(1, kRelaxed); }

struct Place {
  Slot* slot = nullptr;  ///< Null when all slots are used, by other keys.
  bool is_of_key = false;
};

/// The key's slot, or the empty one where it belongs.
Place place_of(const CacheFile& file, const SharedCache::Key& key) noexcept {
  const std::span<Slot> slots = file.slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots[(key.low + i) & (slots.size() - 1)];
    const std::uint64_t state = slot.state.load(std::memory_order_acquire);
    if (kind_of(state) == SlotKind::kEmpty) return {&slot, false};
    if (slot.key == key) return {&slot, true};
  }
  return {};
}

bool has_room(const CacheFile& file, std::uint64_t room_bytes) noexcept {
  const Header& header = file.header();
  const std::uint64_t used_bytes = header.used_bytes.load(kRelaxed);
  const std::uint64_t payload_bytes = file.shape().payload_bytes;
  return header.used_slots.load(kRelaxed) < file.shape().most_slots &&
         used_bytes <= payload_bytes && room_bytes <= payload_bytes - used_bytes;
}

bool is_inside(const CacheFile& file, std::uint64_t offset_bytes,
               std::uint64_t size_bytes) noexcept {
  const std::uint64_t payload_bytes = file.shape().payload_bytes;
  return offset_bytes <= payload_bytes && size_bytes <= payload_bytes - offset_bytes;
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

bool is_whole(const CacheFile& file, const Slot& slot) noexcept {
  return is_inside(file, slot.offset_bytes, slot.size_bytes) &&
         checksum_of({file.payload() + slot.offset_bytes, slot.size_bytes}) == slot.checksum;
}

struct Extent {
  std::uint64_t offset_bytes;
  std::uint64_t room_bytes;
};

/// Bytes below `used_bytes` that no extent has, and those that two have.
std::uint64_t stray_bytes(std::vector<Extent> extents, std::uint64_t used_bytes) {
  std::ranges::sort(extents, {}, &Extent::offset_bytes);
  const auto distance = [](std::uint64_t a, std::uint64_t b) { return a < b ? b - a : a - b; };
  std::uint64_t stray = 0;
  std::uint64_t end_bytes = 0;
  for (const Extent& extent : extents) {
    stray += distance(extent.offset_bytes, end_bytes);
    end_bytes = extent.offset_bytes + extent.room_bytes;
  }
  return stray + distance(used_bytes, end_bytes);
}

}  // namespace

SharedCache::SharedCache(std::unique_ptr<CacheFile> file) : file_(std::move(file)) {}
SharedCache::~SharedCache() = default;

Result<std::shared_ptr<SharedCache>> SharedCache::open(const Options& options) {
  const Result<std::string> path = cache_path(options.name, options.folder);
  if (!path) return path.error();
  if (options.limit_bytes < kLeastLimitBytes || options.limit_bytes > kMostLimitBytes) {
    return named_failure(
        ErrorCode::kInvalidArgument, *path,
        fmt::format("the limit is {} bytes; give one from 1 MiB to 1 PiB", options.limit_bytes));
  }
  Result<std::unique_ptr<CacheFile>> file = CacheFile::open(*path, options.limit_bytes);
  if (!file) return file.error();
  return std::shared_ptr<SharedCache>(new SharedCache(*std::move(file)));
}

Result<void> SharedCache::remove(const std::string& name, const std::string& folder) {
  const Result<std::string> path = cache_path(name, folder);
  if (!path) return path.error();
  if (unlink(path->c_str()) == 0) return {};
  const bool is_missing = errno == ENOENT || errno == ENOTDIR;
  return named_failure(
      is_missing ? ErrorCode::kNotFound : ErrorCode::kIo, *path,
      fmt::format("can't be removed ({}); {}", errno_text("unlink", errno),
                  is_missing ? "there is no cache of that name" : "be the user that made it"));
}

SharedCache::Found SharedCache::find_or_claim(const Key& key, std::size_t size_bytes) noexcept {
  const Place place = place_of(*file_, key);
  return place.is_of_key ? take(*place.slot, size_bytes) : insert(key, size_bytes);
}

SharedCache::Found SharedCache::take(Slot& slot, std::size_t size_bytes) noexcept {
  std::uint64_t state = slot.state.load(std::memory_order_acquire);
  while (true) {
    if (kind_of(state) == SlotKind::kReady) return hit(slot);
    const bool was_claimed = kind_of(state) == SlotKind::kClaimed;
    if (!file_->is_mine() || (was_claimed && file_->is_alive(state))) return busy();
    if (size_bytes > slot.room_bytes || !is_inside(*file_, slot.offset_bytes, slot.room_bytes)) {
      return full();
    }
    if (slot.state.compare_exchange_strong(state, file_->own_claim(), std::memory_order_acq_rel,
                                           std::memory_order_acquire)) {
      if (was_claimed) count(counters_.takeovers);
      return claimed(slot);
    }
  }
}

SharedCache::Found SharedCache::insert(const Key& key, std::size_t size_bytes) noexcept {
  if (size_bytes > file_->shape().payload_bytes) return full();
  const std::uint64_t room_bytes = round_to_page(std::max<std::size_t>(1, size_bytes));
  if (!has_room(*file_, room_bytes)) return full();  // The usual miss of a full cache: no lock.
  if (!file_->is_mine()) return busy();
  Place place;
  {
    const CacheLock lock(*file_);
    if (!lock) return busy();
    place = place_of(*file_, key);
    if (!place.is_of_key) {
      if (place.slot == nullptr || !has_room(*file_, room_bytes)) return full();
      Header& header = file_->header();
      Slot& slot = *place.slot;
      slot.key = key;
      slot.offset_bytes = header.used_bytes.load(kRelaxed);
      slot.room_bytes = room_bytes;
      // From here on the place is the slot's, even if we are killed before the next line.
      slot.state.store(file_->own_claim(), std::memory_order_release);
      header.used_bytes.store(slot.offset_bytes + room_bytes, kRelaxed);
      header.used_slots.fetch_add(1, kRelaxed);
      return claimed(slot);
    }
  }
  return take(*place.slot, size_bytes);  // Somebody was faster.
}

SharedCache::Found SharedCache::hit(const Slot& slot) noexcept {
  if (!is_inside(*file_, slot.offset_bytes, slot.size_bytes)) return full();  // Damaged.
  count(counters_.hits);
  return {State::kHit, {file_->payload() + slot.offset_bytes, slot.size_bytes}, {}};
}

SharedCache::Found SharedCache::claimed(Slot& slot) noexcept {
  count(counters_.misses);
  return {State::kClaimed, {}, Claim(this, &slot)};
}

SharedCache::Found SharedCache::busy() noexcept {
  count(counters_.busy);
  return {State::kBusy, {}, {}};
}

SharedCache::Found SharedCache::full() noexcept {
  count(counters_.full);
  return {State::kFull, {}, {}};
}

std::span<std::byte> SharedCache::Claim::memory() const noexcept {
  if (slot_ == nullptr) return {};
  return {cache_->file_->payload() + slot_->offset_bytes, slot_->room_bytes};
}

std::span<const std::byte> SharedCache::Claim::fill(std::size_t size_bytes) noexcept {
  const std::span<std::byte> place = memory();
  if (size_bytes > place.size() || slot_ == nullptr || !cache_->file_->is_mine()) {
    abandon();
    return {};
  }
  Slot& slot = *std::exchange(slot_, nullptr);
  const std::span<const std::byte> bytes = place.first(size_bytes);
  slot.size_bytes = size_bytes;
  slot.checksum = checksum_of(bytes);
  slot.state.store(plain_state(SlotKind::kReady), std::memory_order_release);
  Header& header = cache_->file_->header();
  header.entries.fetch_add(1, kRelaxed);
  header.filled_bytes.fetch_add(size_bytes, kRelaxed);
  return bytes;
}

void SharedCache::Claim::abandon() noexcept {
  Slot* const slot = std::exchange(slot_, nullptr);
  // A forked child has a copy of the parent's claims.
  if (slot == nullptr || !cache_->file_->is_mine()) return;
  slot->state.store(plain_state(SlotKind::kAbandoned), std::memory_order_release);
}

SharedCache::Stats SharedCache::stats() const noexcept {
  const Header& header = file_->header();
  Stats stats;
  stats.hits = counters_.hits.load(kRelaxed);
  stats.misses = counters_.misses.load(kRelaxed);
  stats.busy = counters_.busy.load(kRelaxed);
  stats.full = counters_.full.load(kRelaxed);
  stats.takeovers = counters_.takeovers.load(kRelaxed);
  stats.entries = header.entries.load(kRelaxed);
  stats.filled_bytes = header.filled_bytes.load(kRelaxed);
  stats.used_bytes = header.used_bytes.load(kRelaxed);
  stats.limit_bytes = header.head.limit_bytes;
  return stats;
}

Result<SharedCache::Verified> SharedCache::verify() {
  Verified verified;
  std::vector<Extent> extents;
  std::vector<const Slot*> ready;
  std::uint64_t used_bytes = 0;
  {
    const CacheLock lock(*file_);
    if (!lock) {
      return named_failure(
          ErrorCode::kIo, path(),
          "the lock is held; see whether a process that uses the cache is stopped");
    }
    used_bytes = file_->header().used_bytes.load(kRelaxed);
    for (const Slot& slot : file_->slots()) {
      const SlotKind kind = kind_of(slot.state.load(std::memory_order_acquire));
      if (kind == SlotKind::kEmpty) continue;
      extents.push_back({slot.offset_bytes, slot.room_bytes});
      if (kind == SlotKind::kReady) ready.push_back(&slot);
      if (kind == SlotKind::kClaimed) ++verified.claimed;
      if (kind == SlotKind::kAbandoned) ++verified.abandoned;
    }
  }
  verified.entries = ready.size();
  verified.stray_bytes = stray_bytes(std::move(extents), used_bytes);
  verified.torn_entries = static_cast<std::uint64_t>(
      std::ranges::count_if(ready, [this](const Slot* slot) { return !is_whole(*file_, *slot); }));
  return verified;
}

bool SharedCache::in_memory() const noexcept { return file_->in_memory(); }
const std::string& SharedCache::path() const noexcept { return file_->path(); }

SharedCache::Key key_of(const struct stat& file, std::uint64_t offset_bytes,
                        std::uint64_t size_bytes) noexcept {
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  const std::array<std::uint64_t, 9> parts = {word(file.st_dev),
                                              word(file.st_ino),
                                              word(file.st_size),
                                              word(file.st_mtim.tv_sec),
                                              word(file.st_mtim.tv_nsec),
                                              word(file.st_ctim.tv_sec),
                                              word(file.st_ctim.tv_nsec),
                                              offset_bytes,
                                              size_bytes};
  const XXH128_hash_t hash = XXH3_128bits(parts.data(), sizeof(parts));
  return {hash.high64, hash.low64};
}

}  // namespace feedrace::storage
