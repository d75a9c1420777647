// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/pack_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/pending_file.h"

namespace feedrace::pack {
namespace {

constexpr mode_t kFileMode = 0666;  // Less the umask.

Failure not_now(const PackFolder& folder, const std::string& holder) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: is being packed into by {}; wait for its end, or end it",
                      printable(folder.path()), holder)};
}

/// "process 123 on host", as the file of a lock says it.
std::string holder_of(const PackFolder& folder, const std::string& name) {
  const Result<std::string> text = folder.read(name);
  return text && !text->empty() ? printable(text->substr(0, text->find('\n'))) : "another process";
}

std::string self() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}\n", getpid(), host[0] == '\0' ? "this host" : host.data());
}

/// The lock's file may be removed by its holder between our opening and locking it.
bool is_still_there(const PackFolder& folder, const std::string& name, int fd) {
  struct stat opened{};
  struct stat named{};
  return fstat(fd, &opened) == 0 && fstatat(folder.fd(), name.c_str(), &named, 0) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// Empty: somebody holds it in a way that excludes ours.
Result<formats::Fd> lock_file(const PackFolder& folder, const std::string& name, int operation) {
  while (true) {
    formats::Fd fd(openat(folder.fd(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode));
    if (!fd) return formats::write_failure(folder.path_of(name), "create", errno);
    if (flock(fd.get(), operation | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return formats::Fd();
      if (errno != EINTR) return formats::system_failure(folder.path_of(name), "lock", errno);
    } else if (is_still_there(folder, name, fd.get())) {
      return fd;
    }
  }
}

void write_holder(const formats::Fd& fd) {
  const std::string text = self();
  // Only for messages: a lock without it locks as well.
  if (ftruncate(fd.get(), 0) == 0) (void)formats::write_at(fd.get(), "", 0, text);
}

/// Who holds a part, when the whole is wanted.
std::string holder_of_any_part(const PackFolder& folder) {
  const Result<std::vector<std::string>> names = folder.names();
  if (!names) return "another process";
  for (const std::string& name : *names) {
    if (!name.starts_with(kWorkPrefix) || !name.ends_with(".lock")) continue;
    const formats::Fd fd(openat(folder.fd(), name.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) continue;
    if (flock(fd.get(), LOCK_SH | LOCK_NB) != 0) return holder_of(folder, name);
  }
  return "another process";
}

}  // namespace

std::string part_tag(const PackPart& part) {
  return part.is_whole() ? "" : fmt::format("part-{}-of-{}.", part.number, part.count);
}

std::string lock_name(const PackPart& part) {
  return fmt::format("{}{}lock", kWorkPrefix, part_tag(part));
}

std::string journal_name(const PackPart& part) {
  return fmt::format("{}{}journal", kWorkPrefix, part_tag(part));
}

std::string temporary_name(const PackPart& part, std::string_view name) {
  return fmt::format("{}{}{}.tmp", kWorkPrefix, part_tag(part), name);
}

std::string shard_name(std::string_view prefix, std::uint64_t number) {
  return fmt::format("{}-{:06}.tar", prefix, number);
}

Result<PackFolder> PackFolder::open(const std::string& path, bool create) {
  std::error_code error;
  if (create) std::filesystem::create_directories(path, error);
  formats::Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool is_absent = !fd && errno == ENOENT;
  if (is_absent && error) return formats::write_failure(path, "make folder", error.value());
  if (!fd && errno == ENOTDIR) {
    return Failure{ErrorCode::kInvalidArgument,
                   fmt::format("{}: is no folder; name one to pack into", printable(path))};
  }
  if (!fd) return formats::system_failure(path, "open", errno);
  return PackFolder(std::move(fd), path);
}

std::string PackFolder::path_of(std::string_view name) const {
  return fmt::format("{}{}{}", path_, path_.ends_with('/') ? "" : "/", name);
}

Result<std::vector<std::string>> PackFolder::names() const {
  formats::Fd fd(openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return formats::system_failure(path_, "open", errno);
  DIR* dir = fdopendir(fd.get());
  if (dir == nullptr) return formats::system_failure(path_, "open", errno);
  fd.release();
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  const int error_number = errno;
  closedir(dir);
  if (error_number != 0) return formats::system_failure(path_, "read folder", error_number);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> PackFolder::read(std::string_view name) const {
  return formats::read_whole_file(path_of(name));
}

Result<void> PackFolder::write(const PackPart& part, std::string_view name,
                               std::string_view content) const {
  Result<formats::PendingFile> file = formats::PendingFile::create_in(
      fd_.get(), path_, std::string(name), temporary_name(part, name));
  if (!file) return file.error();
  if (Result<void> put = file->append(content); !put) return put;
  return file->publish();
}

Result<void> PackFolder::remove(const std::string& name) const {
  if (unlinkat(fd_.get(), name.c_str(), 0) == 0 || errno == ENOENT) return {};
  return formats::system_failure(path_of(name), "unlink", errno);
}

Result<std::uint64_t> PackFolder::free_bytes() const {
  struct statvfs status{};
  if (fstatvfs(fd_.get(), &status) != 0) return formats::system_failure(path_, "statvfs", errno);
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

Result<PackLock> PackLock::take(const PackFolder& folder, const PackPart& part) {
  PackLock lock;
  lock.part_ = part;
  const std::string whole = lock_name({});
  auto fd = lock_file(folder, whole, part.is_whole() ? LOCK_EX : LOCK_SH);
  if (!fd) return fd.error();
  if (!*fd) {
    return not_now(folder, part.is_whole() ? holder_of_any_part(folder) : holder_of(folder, whole));
  }
  lock.whole_ = *std::move(fd);
  if (part.is_whole()) {
    lock.folder_ = &folder;
    write_holder(lock.whole_);
    return lock;
  }
  auto own = lock_file(folder, lock_name(part), LOCK_EX);
  if (!own) return own.error();
  if (!*own) return not_now(folder, holder_of(folder, lock_name(part)));
  lock.own_ = *std::move(own);
  lock.folder_ = &folder;
  write_holder(lock.own_);
  return lock;
}

PackLock::~PackLock() {
  // A file that stays does no harm but to the eye. That of the whole is shared by all parts.
  if (folder_ != nullptr) (void)folder_->remove(lock_name(part_));
}

Result<std::uint64_t> free_bytes_at(const std::string& path) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(path, error);
  struct statvfs status{};
  while (statvfs(at.c_str(), &status) != 0) {
    const bool is_absent = errno == ENOENT || errno == ENOTDIR;
    if (!is_absent || !at.has_relative_path()) {
      return formats::system_failure(path, "statvfs", errno);
    }
    at = at.parent_path();
  }
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

bool says_full(std::string_view message) {
  // What comes from the index has no number any more.
  return std::ranges::any_of(std::array{ENOSPC, EDQUOT}, [&](int error_number) {
    return message.find(errno_text("", error_number)) != std::string_view::npos;
  });
}

}  // namespace feedrace::pack
