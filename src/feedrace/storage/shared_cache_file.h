// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "feedrace/error.h"
#include "feedrace/storage/posix_file.h"
#include "feedrace/storage/shared_cache_layout.h"

namespace feedrace::storage {

/// The mapped file of a shared cache: who makes it, who holds it, who is alive.
///
/// Byte 0 is locked (fcntl, of the open file, so that a thread or a second cache of the same
/// process counts as another) in common by all that use the file and alone by whoever makes or
/// removes it. Nobody alive holds a file whose byte 0 can be locked alone. Byte 1 + N is the lock
/// of seat N.
class CacheFile {
 public:
  static constexpr std::chrono::milliseconds kPatience{30'000};

  /// Joins or makes the file; see `SharedCache::open`. `patience` is how long the file may stop
  /// growing while somebody else makes it.
  static Result<std::unique_ptr<CacheFile>> open(const std::string& path, std::uint64_t limit_bytes,
                                                 std::chrono::milliseconds patience = kPatience);
  /// Removes the file if nobody else holds it.
  ~CacheFile();
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  const CacheShape& shape() const noexcept { return shape_; }
  bool in_memory() const noexcept { return in_memory_; }
  Header& header() const noexcept;
  std::span<Slot> slots() const noexcept;
  /// `shape().payload_bytes` of them.
  std::byte* payload() const noexcept { return memory_ + shape_.payload_at_bytes; }

  /// False in a forked child, where claims would seem to be the parent's.
  bool is_mine() const noexcept;
  /// The state of a slot that is claimed from here.
  std::uint64_t own_claim() const noexcept { return claimed_state(seat_, turn_); }
  /// Whether the claimer of a claimed slot may still fill it.
  bool is_alive(std::uint64_t claimed_state) const noexcept;

 private:
  CacheFile(FileDescriptor fd, std::string path, std::uint64_t limit_bytes);

  /// Null when another was first.
  static Result<std::unique_ptr<CacheFile>> make(const std::string& path,
                                                 std::uint64_t limit_bytes);
  /// Null when its maker died before it was ready.
  static Result<std::unique_ptr<CacheFile>> join(FileDescriptor fd, const std::string& path,
                                                 std::uint64_t limit_bytes);
  Result<void> reserve() const;
  Result<void> map();
  Result<void> take_seat();

  FileDescriptor fd_;
  std::string path_;
  CacheShape shape_;
  std::byte* memory_ = nullptr;
  bool in_memory_ = false;
  pid_t pid_;
  std::uint64_t pid_namespace_;
  std::size_t seat_ = 0;
  std::uint64_t turn_ = 0;
};

/// FOLDER/feedrace-UID-NAME.cache. kInvalidArgument when the name is not one.
Result<std::string> cache_path(const std::string& name, const std::string& folder);

}  // namespace feedrace::storage
