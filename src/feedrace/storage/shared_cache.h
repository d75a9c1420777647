// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "feedrace/error.h"

namespace feedrace::storage {

struct Slot;
class CacheFile;

/// Encoded samples that the processes of one user on one machine share, so that each byte is read
/// from the device once. A hit costs no copy and no lock: the decoder reads in place.
///
/// Nothing is ever replaced: what came first stays until `limit_bytes` is reached, the rest is read
/// from the device each time. An epoch walks every sample once, in an order that doesn't repeat;
/// for that walk LRU throws out each sample shortly before it is asked for again and hits almost
/// never, while this hits limit / size of the data set. And spans can stay valid without being
/// counted.
///
/// The memory is a file, FOLDER/feedrace-UID-NAME.cache with mode 0600, given to it whole by the
/// first to open, which takes about half a second a GB, so that running out of memory is an error
/// of `open` and no SIGBUS later. Whoever closes last in an orderly way removes it. If the last was
/// killed, the next to open finds that nobody alive holds it (locks of the open file) and makes it
/// anew; until then, or until `remove` or a reboot, it holds its memory.
///
/// A process may be killed at any instant: its claims are taken over by whoever asks next, a lock
/// that it held is repaired. What the file's owner writes into it by other means is not defended
/// against, nor is cutting it short while it is used; `verify` finds the former.
///
/// Thread-safe. In a child after fork() hits go on; all else is kBusy, and the child's destructor
/// leaves everything to the parent.
class SharedCache {
 public:
  struct Options {
    std::string name;               ///< 1 to 64 of [A-Za-z0-9._-]; the same name is the same cache.
    std::uint64_t limit_bytes = 0;  ///< Of samples, each rounded up to 4,096; at least 1 MiB.
    std::string folder = "/dev/shm";  ///< Elsewhere is allowed; `in_memory` says whether it is RAM.
  };

  /// Names the bytes, not the place: whoever claims a key must put the same bytes there. Any
  /// 128-bit hash will do, see `key_of`.
  struct Key {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    bool operator==(const Key&) const = default;
  };

  enum class State {
    kHit,      ///< `bytes` are the sample.
    kClaimed,  ///< Nobody has it: read it into `claim.memory()`, then `claim.fill`.
    kBusy,     ///< Somebody alive is reading it. Read it yourself, or ask again later.
    kFull,     ///< Not here and no room. Read it yourself.
  };

  /// The duty to read a sample. Moves; abandons what was not filled when it dies, so it must
  /// outlive any read into its memory, and must not outlive the cache. One thread at a time.
  class Claim {
   public:
    Claim() = default;
    Claim(Claim&& other) noexcept
        : cache_(std::exchange(other.cache_, nullptr)),
          slot_(std::exchange(other.slot_, nullptr)) {}
    Claim& operator=(Claim&& other) noexcept {
      std::swap(cache_, other.cache_);
      std::swap(slot_, other.slot_);
      return *this;
    }
    ~Claim() { abandon(); }

    explicit operator bool() const noexcept { return slot_ != nullptr; }
    /// Where the bytes belong: aligned to 4,096 and, for direct reads, as long as the claimed size
    /// rounded up to 4,096.
    std::span<std::byte> memory() const noexcept;
    /// The first `size_bytes` of `memory()` are the sample: from now on all may see it. Returns
    /// them, valid as in `Found`. Ends the claim. Abandons it and returns nothing when `size_bytes`
    /// is more than `memory()` has, or in a forked child.
    std::span<const std::byte> fill(std::size_t size_bytes) noexcept;
    /// Leaves the sample to whoever asks next; its place stays reserved for it. Ends the claim.
    void abandon() noexcept;

   private:
    friend class SharedCache;
    Claim(SharedCache* cache, Slot* slot) noexcept : cache_(cache), slot_(slot) {}

    SharedCache* cache_ = nullptr;
    Slot* slot_ = nullptr;
  };

  struct Found {
    State state = State::kFull;
    std::span<const std::byte> bytes;  ///< Of a hit; valid as long as the SharedCache.
    Claim claim;                       ///< Of kClaimed; else empty.
  };

  struct Stats {
    // What this SharedCache was asked for.
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;     ///< Ended in a claim.
    std::uint64_t busy = 0;       ///< Somebody else was reading.
    std::uint64_t full = 0;       ///< No room.
    std::uint64_t takeovers = 0;  ///< Of the misses, those whose claimer had died.
    // What all have put in. Short of the samples whose reader was killed in the very act.
    std::uint64_t entries = 0;
    std::uint64_t filled_bytes = 0;  ///< Sizes of the samples.
    std::uint64_t used_bytes = 0;    ///< With the rounding and what is claimed or abandoned.
    std::uint64_t limit_bytes = 0;
  };

  struct Verified {
    std::uint64_t entries = 0;
    std::uint64_t torn_entries =
        0;                      ///< Bytes that don't have the checksum of when they were filled.
    std::uint64_t claimed = 0;  ///< Being read, or their reader died and nobody has asked since.
    std::uint64_t abandoned = 0;
    std::uint64_t stray_bytes = 0;  ///< That belong to no sample or to two. 0 unless damaged.
  };

  /// Opens the cache of that name or makes it. Waits while another process is making it, and gives
  /// up when that makes no progress for 30 s. Codes: kInvalidArgument (name; limit, also when
  /// another one than the existing cache's, or more than half of the memory available), kNotFound
  /// (folder), kUnsupported (file system; a cache of another version in use), kIo (no room; another
  /// owner; a file of that name that is no cache; 1,024 users already).
  static Result<std::shared_ptr<SharedCache>> open(const Options& options);

  /// Removes the file of a cache. Whoever has it open goes on with it alone, without those who open
  /// later; the memory is free once they have closed. kNotFound when there is none.
  static Result<void> remove(const std::string& name, const std::string& folder = "/dev/shm");

  ~SharedCache();
  SharedCache(const SharedCache&) = delete;
  SharedCache& operator=(const SharedCache&) = delete;

  /// A hit, or what else to do. Does not wait for a reader; for the lock of a process that was
  /// stopped with it at most 0.1 s. `size_bytes` is the most that `fill` will be given.
  Found find_or_claim(const Key& key, std::size_t size_bytes) noexcept;

  Stats stats() const noexcept;
  /// Reads every byte. Samples that come in meanwhile may be left out. kIo when the lock is not
  /// free within 0.1 s.
  Result<Verified> verify();
  bool in_memory() const noexcept;
  const std::string& path() const noexcept;

 private:
  struct Counters {
    std::atomic<std::uint64_t> hits{0};
    std::atomic<std::uint64_t> misses{0};
    std::atomic<std::uint64_t> busy{0};
    std::atomic<std::uint64_t> full{0};
    std::atomic<std::uint64_t> takeovers{0};
  };

  explicit SharedCache(std::unique_ptr<CacheFile> file);

  Found take(Slot& slot, std::size_t size_bytes) noexcept;
  Found insert(const Key& key, std::size_t size_bytes) noexcept;
  Found hit(const Slot& slot) noexcept;
  Found claimed(Slot& slot) noexcept;
  Found busy() noexcept;
  Found full() noexcept;

  std::unique_ptr<CacheFile> file_;
  Counters counters_;
};

/// The key of a range of a file: device, inode, size, times of change of contents and of inode. A
/// file that was written to since has other keys.
SharedCache::Key key_of(const struct stat& file, std::uint64_t offset_bytes,
                        std::uint64_t size_bytes) noexcept;

}  // namespace feedrace::storage
