// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/shared_cache_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/storage/failures.h"
#include "feedrace/storage/shared_cache_lock.h"

namespace feedrace::storage {
namespace {

constexpr off_t kLifeByte = 0;
constexpr off_t kSeatBytes = 1;  // Of seat 0; the others follow.
constexpr off_t kAllBytes = 0;   // As a length.

constexpr std::size_t kNameChars = 64;
constexpr std::uint64_t kReserveBytes = std::uint64_t{64} << 20;
constexpr std::chrono::milliseconds kPause{10};

/// Locks of the open file: they end with its last descriptor, not with any descriptor of the file.
bool set_lock(int fd, short kind, off_t start, off_t length = 1) noexcept {
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = length;
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool is_locked_by_others(int fd, off_t byte) noexcept {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/// Whether the open file is what the path leads to, and not removed or replaced.
bool is_at(const std::string& path, int fd) noexcept {
  struct stat there{};
  struct stat open{};
  return lstat(path.c_str(), &there) == 0 && fstat(fd, &open) == 0 && there.st_dev == open.st_dev &&
         there.st_ino == open.st_ino;
}

CacheHead head_of(int fd) noexcept {
  CacheHead head{};
  if (pread(fd, &head, sizeof head, 0) != static_cast<ssize_t>(sizeof head)) return {};
  return head;
}

std::uint64_t own_pid_namespace() noexcept {
  struct stat file{};
  return stat("/proc/self/ns/pid", &file) == 0 ? file.st_ino : 0;
}

std::string folder_of(const std::string& path) { return path.substr(0, path.find_last_of('/')); }

Failure failure_at(ErrorCode code, const std::string& path, std::string_view what) {
  return named_failure(code, path, what);
}

Failure no_room(const std::string& path, std::uint64_t needed_bytes,
                std::optional<std::uint64_t> free_bytes) {
  return failure_at(
      ErrorCode::kIo, path,
      fmt::format("needs {} and {} are free there; lower the limit, remove what is in the way, or "
                  "give the file system more (mount -o remount,size=, docker run --shm-size=)",
                  human_bytes(needed_bytes), free_bytes ? human_bytes(*free_bytes) : "fewer"));
}

/// Nothing where there is no limit.
std::optional<std::uint64_t> free_bytes_of(int fd) noexcept {
  struct statfs system{};
  if (fstatfs(fd, &system) != 0 || system.f_blocks == 0) return std::nullopt;
  return system.f_bavail * static_cast<std::uint64_t>(system.f_bsize);
}

bool is_memory(int fd) noexcept {
  struct statfs system{};
  return fstatfs(fd, &system) == 0 &&
         (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

Result<void> check_owner(const std::string& path, int fd) {
  struct stat file{};
  if (fstat(fd, &file) != 0) return open_failure(path, "fstat", errno);
  if (!S_ISREG(file.st_mode)) {
    return failure_at(ErrorCode::kIo, path, "is not a regular file; remove it");
  }
  if (file.st_uid != geteuid()) {
    return failure_at(ErrorCode::kIo, path,
                      fmt::format("belongs to user {} and this is user {}; remove it, or give the "
                                  "cache another name",
                                  file.st_uid, geteuid()));
  }
  if ((file.st_mode & 077) != 0) {
    return failure_at(ErrorCode::kIo, path,
                      fmt::format("others may use it (mode {:04o}), so its bytes can't be trusted; "
                                  "remove it",
                                  file.st_mode & 07777));
  }
  return {};
}

/// With the lock of `fd` that only one can have: the file of processes that are all dead.
Result<void> remove_stale(const std::string& path, int fd) {
  if (!is_at(path, fd)) return {};
  // Anything else is not ours to throw away.
  if (head_of(fd).magic != kCacheMagic) {
    return failure_at(ErrorCode::kIo, path,
                      "is no cache of samples; move it away, or give the cache another name");
  }
  if (unlink(path.c_str()) == 0) return {};
  return failure_at(ErrorCode::kIo, path,
                    fmt::format("is left from processes that died and can't be removed ({}); "
                                "remove it",
                                errno_text("unlink", errno)));
}

Result<FileDescriptor> open_nameless(const std::string& path) {
  const std::string folder = folder_of(path);
  FileDescriptor fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd) return fd;
  if (errno == EOPNOTSUPP || errno == EISDIR) {
    return failure_at(ErrorCode::kUnsupported, folder,
                      "the file system has no nameless files (O_TMPFILE), so no cache can be made "
                      "there; use /dev/shm");
  }
  if (errno == ENOSPC) return no_room(path, kCachePageBytes, 0);
  return open_failure(folder, "open", errno);
}

/// Waits while the file grows.
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds longest) : longest_(longest) {}

  bool wait(int fd) {
    struct stat file{};
    if (fstat(fd, &file) == 0 && file.st_blocks != blocks_) {
      blocks_ = file.st_blocks;
      waited_ = {};
    }
    if (waited_ >= longest_) return false;
    std::this_thread::sleep_for(kPause);
    waited_ += kPause;
    return true;
  }

 private:
  std::chrono::milliseconds longest_;
  std::chrono::milliseconds waited_{};
  blkcnt_t blocks_ = -1;
};

}  // namespace

CacheFile::CacheFile(FileDescriptor fd, std::string path, std::uint64_t limit_bytes)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      shape_(shape_of(limit_bytes)),
      in_memory_(is_memory(fd_.get())),
      pid_(getpid()),
      pid_namespace_(own_pid_namespace()) {}

CacheFile::~CacheFile() {
  if (memory_ != nullptr) munmap(memory_, shape_.file_bytes);
  if (!is_mine()) return;  // The locks are the parent's too.
  // Of several that close at once, the last to let go can lock it alone.
  set_lock(fd_.get(), F_UNLCK, 0, kAllBytes);
  if (set_lock(fd_.get(), F_WRLCK, kLifeByte) && is_at(path_, fd_.get())) unlink(path_.c_str());
}

Result<std::unique_ptr<CacheFile>> CacheFile::open(const std::string& path,
                                                   std::uint64_t limit_bytes,
                                                   std::chrono::milliseconds patience) {
  Patience waiting(patience);
  while (true) {
    FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) {
      if (errno != ENOENT) return open_failure(path, "open", errno);
      Result<std::unique_ptr<CacheFile>> made = make(path, limit_bytes);
      if (!made || *made != nullptr) return made;
      continue;
    }
    if (Result<void> owned = check_owner(path, fd.get()); !owned) return owned.error();
    if (set_lock(fd.get(), F_WRLCK, kLifeByte)) {
      if (Result<void> removed = remove_stale(path, fd.get()); !removed) return removed.error();
    } else if (set_lock(fd.get(), F_RDLCK, kLifeByte)) {
      if (!is_at(path, fd.get())) continue;
      Result<std::unique_ptr<CacheFile>> joined = join(std::move(fd), path, limit_bytes);
      if (!joined || *joined != nullptr) return joined;
    } else if (!waiting.wait(fd.get())) {
      return failure_at(ErrorCode::kIo, path,
                        "another process has been making it and gets no further; see whether that "
                        "is stopped, or remove the file");
    }
  }
}

Result<std::unique_ptr<CacheFile>> CacheFile::make(const std::string& path,
                                                   std::uint64_t limit_bytes) {
  Result<FileDescriptor> fd = open_nameless(path);
  if (!fd) return fd.error();
  const int number = fd->get();
  if (!set_lock(number, F_WRLCK, kLifeByte)) {
    return failure_at(
        ErrorCode::kUnsupported, folder_of(path),
        fmt::format("files can't be locked there ({}); use /dev/shm", errno_text("fcntl", errno)));
  }
  const CacheHead head{kCacheMagic, kCacheVersion, sizeof(Header), limit_bytes, 0};
  if (pwrite(number, &head, sizeof head, 0) != static_cast<ssize_t>(sizeof head)) {
    return no_room(path, shape_of(limit_bytes).file_bytes, free_bytes_of(number));
  }
  const std::string nameless = fmt::format("/proc/self/fd/{}", number);
  if (linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    if (errno == EEXIST) return std::unique_ptr<CacheFile>();
    return open_failure(path, "linkat", errno);
  }
  // From here on others find it, see the lock, and wait; its destructor removes what is half made.
  std::unique_ptr<CacheFile> file(new CacheFile(*std::move(fd), path, limit_bytes));
  if (Result<void> reserved = file->reserve(); !reserved) return reserved.error();
  if (Result<void> mapped = file->map(); !mapped) return mapped.error();
  make_cache_mutex(file->header().mutex);
  if (Result<void> seated = file->take_seat(); !seated) return seated.error();
  file->header().head.is_ready = 1;
  set_lock(number, F_RDLCK, kLifeByte);
  return file;
}

Result<std::unique_ptr<CacheFile>> CacheFile::join(FileDescriptor fd, const std::string& path,
                                                   std::uint64_t limit_bytes) {
  const CacheHead head = head_of(fd.get());
  if (head.magic != kCacheMagic) {
    return failure_at(ErrorCode::kIo, path,
                      "is no cache of samples, and some process has it locked; give the cache "
                      "another name");
  }
  if (head.version != kCacheVersion || head.header_bytes != sizeof(Header)) {
    return failure_at(ErrorCode::kUnsupported, path,
                      fmt::format("is in use as a cache of layout {} ({} bytes of header) and this "
                                  "is layout {} ({}); run the same version of feedrace, or give "
                                  "the cache another name",
                                  head.version, head.header_bytes, kCacheVersion, sizeof(Header)));
  }
  if (head.is_ready == 0) return std::unique_ptr<CacheFile>();
  if (head.limit_bytes != limit_bytes) {
    return failure_at(ErrorCode::kInvalidArgument, path,
                      fmt::format("is in use with a limit of {} bytes and {} were asked for; give "
                                  "the same limit, or the cache another name",
                                  head.limit_bytes, limit_bytes));
  }
  std::unique_ptr<CacheFile> file(new CacheFile(std::move(fd), path, limit_bytes));
  if (Result<void> mapped = file->map(); !mapped) return mapped.error();
  if (Result<void> seated = file->take_seat(); !seated) return seated.error();
  return file;
}

Result<void> CacheFile::reserve() const {
  if (const auto available = available_memory_bytes();
      in_memory_ && available && shape_.file_bytes > *available / 2) {
    return failure_at(ErrorCode::kInvalidArgument, path_,
                      fmt::format("would take {} of the {} of memory that are available, more than "
                                  "half; lower the limit",
                                  human_bytes(shape_.file_bytes), human_bytes(*available)));
  }
  // Asked first, so as not to fill the file system up for a moment.
  if (const auto free = free_bytes_of(fd_.get()); free && *free < shape_.file_bytes) {
    return no_room(path_, shape_.file_bytes, free);
  }
  // In steps, because a signal undoes the step that it interrupts.
  for (std::uint64_t at = 0; at < shape_.file_bytes;) {
    const std::uint64_t bytes = std::min(kReserveBytes, shape_.file_bytes - at);
    if (fallocate(fd_.get(), 0, static_cast<off_t>(at), static_cast<off_t>(bytes)) == 0) {
      at += bytes;
    } else if (errno == ENOSPC || errno == ENOMEM) {
      return no_room(path_, shape_.file_bytes, free_bytes_of(fd_.get()));
    } else if (errno != EINTR) {
      return failure_at(errno == EOPNOTSUPP ? ErrorCode::kUnsupported : ErrorCode::kIo, path_,
                        fmt::format("{} bytes can't be reserved ({}); use /dev/shm",
                                    shape_.file_bytes, errno_text("fallocate", errno)));
    }
  }
  return {};
}

Result<void> CacheFile::map() {
  struct stat file{};
  if (fstat(fd_.get(), &file) != 0) return open_failure(path_, "fstat", errno);
  const auto size_bytes = static_cast<std::uint64_t>(file.st_size);
  if (size_bytes != shape_.file_bytes) {
    return failure_at(ErrorCode::kIo, path_,
                      fmt::format("has {} bytes and not the {} of its limit; somebody changed it: "
                                  "end the processes that use it and remove it",
                                  size_bytes, shape_.file_bytes));
  }
  void* const memory =
      mmap(nullptr, shape_.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (memory == MAP_FAILED) {
    return failure_at(ErrorCode::kIo, path_,
                      fmt::format("{} bytes can't be mapped ({}); raise the limit of addresses "
                                  "(ulimit -v), or lower the limit of the cache",
                                  shape_.file_bytes, errno_text("mmap", errno)));
  }
  memory_ = static_cast<std::byte*>(memory);
  return {};
}

Result<void> CacheFile::take_seat() {
  while (seat_ < kSeats && !set_lock(fd_.get(), F_WRLCK, kSeatBytes + static_cast<off_t>(seat_))) {
    ++seat_;
  }
  if (seat_ == kSeats) {
    return failure_at(ErrorCode::kIo, path_,
                      fmt::format("{} users have it open, and that is the most; give the cache "
                                  "another name",
                                  kSeats));
  }
  Seat& seat = header().seats[seat_];
  seat.pid.store(static_cast<std::uint64_t>(pid_), std::memory_order_relaxed);
  seat.pid_namespace.store(pid_namespace_, std::memory_order_relaxed);
  turn_ = seat.turn.load(std::memory_order_relaxed) + 1;
  seat.turn.store(turn_, std::memory_order_release);
  return {};
}

Header& CacheFile::header() const noexcept { return *reinterpret_cast<Header*>(memory_); }

std::span<Slot> CacheFile::slots() const noexcept {
  return {reinterpret_cast<Slot*>(memory_ + shape_.table_at_bytes), shape_.slot_count};
}

bool CacheFile::is_mine() const noexcept { return getpid() == pid_; }

bool CacheFile::is_alive(std::uint64_t claimed_state) const noexcept {
  const std::size_t number = seat_of(claimed_state);
  const Seat& seat = header().seats[number];
  if (seat.turn.load(std::memory_order_acquire) != turn_of(claimed_state)) return false;
  if (number == seat_) return true;
  if (!is_locked_by_others(fd_.get(), kSeatBytes + static_cast<off_t>(number))) return false;
  // A child that a killed process forked keeps the lock, so ask for the process too where its
  // number means the same to us.
  const std::uint64_t pid_namespace = seat.pid_namespace.load(std::memory_order_relaxed);
  if (pid_namespace == 0 || pid_namespace != pid_namespace_) return true;
  return kill(static_cast<pid_t>(seat.pid.load(std::memory_order_relaxed)), 0) == 0 ||
         errno != ESRCH;
}

Result<std::string> cache_path(const std::string& name, const std::string& folder) {
  const auto is_allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (name.empty() || name.size() > kNameChars || !std::ranges::all_of(name, is_allowed)) {
    return failure_at(ErrorCode::kInvalidArgument, "cache '" + name + "'",
                      "is no name of a cache; give 1 to 64 of the characters A-Z a-z 0-9 . _ -");
  }
  return fmt::format("{}/feedrace-{}-{}.cache", folder, geteuid(), name);
}

}  // namespace feedrace::storage
