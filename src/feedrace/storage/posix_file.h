// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "feedrace/backend.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/storage/access.h"
#include "feedrace/storage/read_threads.h"

namespace feedrace::storage {

using host::FileDescriptor;

class FixedFile;

/// How one read goes.
struct Route {
  int fd = -1;
  Path path = Path::kPageCache;
  int flags = 0;             ///< Of preadv2.
  bool drops_pages = false;  ///< Call `drop_pages` behind the read.
};

/// The descriptors of a file, and how its file system is read.
struct OpenFile {
  FileDescriptor cached;                     ///< Through the page cache. May be empty.
  FileDescriptor direct;                     ///< With O_DIRECT. May be empty.
  std::shared_ptr<FileSystemAccess> access;  ///< Null: through the page cache, as was wanted.
  std::uint64_t size_bytes = kUnknownSize;

  static constexpr std::uint64_t kUnknownSize = ~std::uint64_t{0};

  /// How to read `destination.size()` bytes at `offset_bytes`. Failure: kUnsupported where another
  /// way than the wanted one is refused; `is_rest` is the rest of a read, which never is.
  Result<Route> route(std::string_view name, std::uint64_t offset_bytes,
                      std::span<const std::byte> destination, bool is_rest = false) const noexcept;
};

/// A file of the local file system. Needs no back end to live.
class PosixFile final : public File {
 public:
  PosixFile(OpenFile open, std::string uri) : open_(std::move(open)), uri_(std::move(uri)) {}

  std::uint64_t size_bytes() const noexcept override { return open_.size_bytes; }
  const std::string& uri() const noexcept override { return uri_; }
  std::size_t alignment_bytes() const noexcept override {
    return open_.direct ? open_.access->alignment_bytes() : 1;
  }
  const OpenFile& open() const noexcept { return open_; }
  /// Through the page cache.
  int fd() const noexcept { return open_.cached.get(); }

  /// Its place in the table of the ring that opened it; null: none.
  std::shared_ptr<const FixedFile> fixed;

 private:
  OpenFile open_;
  std::string uri_;
};

/// Opens a regular file or a block device. Failures as `Backend::open` has them.
Result<std::unique_ptr<PosixFile>> open_posix(std::string_view uri, AccessTable& table);

/// Opens the file of a whole-file request, with as few system calls as can be; never waits for the
/// writer of a FIFO. With neither descriptor on failure, and errno set.
OpenFile open_whole(const char* path, std::span<const std::byte> destination, AccessTable& table);

/// Whether a whole-file read of `path` into `destination` can go by O_DIRECT without opening the
/// file first to ask; the file must be opened with `kDirectOpenFlags` then. Null: no.
std::shared_ptr<FileSystemAccess> direct_whole(const char* path,
                                               std::span<const std::byte> destination,
                                               AccessTable& table);
/// A link may lead to another file system, so it is not followed.
inline constexpr int kDirectOpenFlags = O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW;
/// The open with these flags failed: draws the conclusions, so that the next try goes another way.
/// True when there may be one.
bool learn_from_failed_open(const char* path, FileSystemAccess& access, AccessTable& table,
                            int error_number);

/// Gives up the pages that a read has left in the page cache.
void drop_pages(int fd, std::uint64_t offset_bytes, std::size_t size_bytes) noexcept;

/// The file and the names that a request stands for. Lives as long as the request.
struct Target {
  const PosixFile* file = nullptr;  ///< Null for a whole-file request.
  std::string_view name;            ///< For messages.
};

/// kInvalidArgument when the request names no file, or one of another back end.
Result<Target> target_of(const ReadRequest& request) noexcept;

/// A read by `route` failed with `error_number`: whether another way is left, which the next
/// `OpenFile::route` gives.
bool is_other_way_left(const Route& route, const OpenFile& open, int error_number);

/// Whether `bytes` of a direct read, fewer than were asked for, can only be the end of the file.
bool is_exact_end(const Route& route, const OpenFile& open, std::size_t bytes) noexcept;

/// What `read_range` found.
struct RangeRead {
  std::size_t bytes = 0;
  int error_number = 0;  ///< 0: `bytes` are all that there were. ECANCELED when `stop` was raised.
  std::optional<Failure> refused;  ///< Instead of an errno: the way that was wanted can't be had.
  Path path = Path::kPageCache;
  std::uint64_t call_count = 0;  ///< System calls.
};

/// Blocking; continues short reads and interrupted calls until `destination` is full or the file
/// ends. Looks at `stop` every few MiB.
RangeRead read_range(const OpenFile& open, std::string_view name, std::uint64_t offset_bytes,
                     std::span<std::byte> destination, const StopSign& stop) noexcept;

}  // namespace feedrace::storage
