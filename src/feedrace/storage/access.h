// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "feedrace/host/file_system.h"
#include "feedrace/storage/fallback_log.h"

namespace feedrace::storage {

/// How files are to be read, the least copies and pages last. What a file system does not have
/// falls back to the line above, counted.
enum class Access : std::uint8_t {
  kPageCache,  ///< Through the page cache; the pages stay for the next epoch and for other ranks.
  kUncached,   ///< Through the page cache, whose pages are given up behind the read.
  kDirect,     ///< O_DIRECT: from the device into our memory, no page and no copy.
};

/// What destinations of whole files are to be multiples of: no file system asks for more.
constexpr std::size_t whole_file_alignment(Access wanted) noexcept {
  return wanted == Access::kDirect ? 4096 : 1;
}

struct AccessOptions {
  Access wanted = Access::kPageCache;
  /// A read that would have to take another way than `wanted` fails with kUnsupported and the
  /// reason.
  bool strict = false;
  /// Where fallbacks are counted; null: a log of its own.
  std::shared_ptr<FallbackLog> log;
};

/// How the files of one file system are read: what was wanted, cut down to what it has. Reads that
/// find out more (an O_DIRECT read that is refused after all) cut it down further. Thread-safe.
class FileSystemAccess {
 public:
  FileSystemAccess(const AccessOptions& options, host::FileSystem facts);

  bool is_direct() const noexcept { return is_direct_; }
  /// By RWF_DONTCACHE.
  bool is_uncached() const noexcept { return is_uncached_; }
  /// By posix_fadvise behind the read.
  bool drops_pages() const noexcept {
    return wanted_ != Access::kPageCache && !is_uncached_ && !facts_.is_in_memory;
  }
  /// Of direct reads; 1 where there are none.
  std::size_t alignment_bytes() const noexcept {
    return is_direct_ ? facts_.direct_alignment_bytes : 1;
  }
  /// A short direct read can only be the end of the file.
  bool has_exact_ends() const noexcept { return facts_.has_exact_ends; }

  /// An O_DIRECT open or read, or a read with RWF_DONTCACHE, was refused although it should work.
  void direct_failed(int error_number);
  void uncached_failed();

  /// One read does not go the way that was wanted, because of the file system or of its alignment:
  /// counts it. The reason, when that is an error.
  std::optional<std::string> count_fallback() noexcept;

 private:
  void refuse(std::string why);  // `mutex_` is held, or nobody else has the object yet.

  const Access wanted_;
  const bool strict_;
  const std::shared_ptr<FallbackLog> log_;
  const host::FileSystem facts_;
  std::atomic<bool> is_direct_;
  std::atomic<bool> is_uncached_;
  std::mutex mutex_;
  std::string sentence_;                                  // Guarded by mutex_.
  std::atomic<FallbackLog::Counter*> counter_ = nullptr;  // Of `sentence_`; null: as wanted.
  FallbackLog::Counter& unaligned_;
};

/// The file systems that a back end has met. Each is asked once what it has. Thread-safe.
class AccessTable {
 public:
  using Probe = std::function<Result<host::FileSystem>(const std::string& path)>;

  explicit AccessTable(AccessOptions options, Probe probe = {});

  Access wanted() const noexcept { return options_.wanted; }
  FallbackLog& log() const noexcept { return *options_.log; }

  /// For an open file: `device` is its st_dev, or the device's own number. Never fails: a file
  /// system that can't be asked is read through the page cache.
  std::shared_ptr<FileSystemAccess> of_device(std::uint64_t device, const std::string& path);

  /// For the files of a folder, without opening one: by the folder that `path` lies in, whose file
  /// system is asked at the first file. Null where that fails: open the file to learn why.
  /// A file that is a link may lie elsewhere; open it with O_NOFOLLOW.
  std::shared_ptr<FileSystemAccess> of_folder(const char* path);
  /// A file of this folder is a link: from now on null for all of its files.
  void folder_has_links(const char* path);

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Folders =
      std::unordered_map<std::string, std::shared_ptr<FileSystemAccess>, Hash, std::equal_to<>>;

  AccessOptions options_;
  const Probe probe_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<FileSystemAccess>>
      devices_;      // Guarded by mutex_.
  Folders folders_;  // Guarded by mutex_.
};

}  // namespace feedrace::storage
