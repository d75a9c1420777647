// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/index_place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/fingerprint.h"

namespace feedrace::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".frindex";
constexpr std::time_t kStaleSeconds = 3600;
/// A longer one would not leave room for hash, ending and temporary name in NAME_MAX (255).
constexpr std::size_t kMaxStemBytes = 120;

std::string temporary_prefix(const std::string& name) { return fmt::format(".{}.tmp-", name); }

/// Removes the temporary folders that `is_wanted` by name, as old as that, and held by nobody.
template <typename IsWanted>
void remove_builds(const std::string& folder, std::time_t least_age_s,
                   const IsWanted& is_wanted) noexcept {
  try {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (!is_wanted(entry.path().filename().native())) continue;
      const Fd fd(open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      struct stat status{};
      if (!fd || fstat(fd.get(), &status) != 0) continue;
      const bool is_young = std::time(nullptr) - status.st_mtim.tv_sec < least_age_s;
      if (is_young || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
      fs::remove_all(entry.path(), error);
    }
  } catch (const std::exception&) {
    return;  // Tidying up is a courtesy; it must not stop a build.
  }
}

/// Letters, digits, dot, dash and underscore stay; the rest becomes an underscore.
std::string plain_stem(std::string_view text) {
  std::string stem(text.substr(0, kMaxStemBytes));
  for (char& c : stem) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return stem;
}

std::string environment(const char* name) {
  const char* value = getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets it.
  return value == nullptr ? "" : value;
}

}  // namespace

std::string index_name(const std::vector<std::string>& sources, std::string_view options) {
  std::string source = sources.at(0);
  while (source.size() > 1 && source.ends_with('/')) source.pop_back();
  struct stat status{};
  const bool is_folder = stat(source.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  const std::string base = is_folder ? "shards" : source.substr(source.rfind('/') + 1);
  std::string stem = plain_stem(base);
  if (stem != base || sources.size() > 1 || !options.empty()) {
    std::string all(options);
    for (const std::string& one : sources)
      all += '\0' + one.substr(sources.size() > 1 ? 0 : one.rfind('/') + 1);
    stem += "-" + hash_text(all).substr(0, 8);
  }
  return stem + std::string(kEnding);
}

std::vector<std::string> cache_candidates(const std::string& cache_dir) {
  if (!cache_dir.empty()) return {cache_dir};
  std::vector<std::string> folders;
  if (const std::string xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) {
    folders.push_back(xdg + "/feedrace");
  } else if (const std::string home = environment("HOME"); !home.empty()) {
    folders.push_back(home + "/.cache/feedrace");
  }
  const std::string temporary = environment("TMPDIR");
  folders.push_back(
      fmt::format("{}/feedrace-{}", temporary.empty() ? "/tmp" : temporary, geteuid()));
  return folders;
}

bool is_own_folder(const std::string& path) noexcept {
  struct stat status{};
  // Not through a link: in a folder that all may write to, somebody else may have put it there.
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

Result<std::string> make_cache_folder(const std::string& cache_dir) {
  std::string reason;
  for (const std::string& folder : cache_candidates(cache_dir)) {
    std::error_code error;
    fs::create_directories(fs::path(folder).parent_path(), error);
    const bool made = mkdir(folder.c_str(), S_IRWXU) == 0;
    if (!made && errno != EEXIST) {
      reason = errno_text("create folder", errno);
    } else if (!is_own_folder(folder)) {
      reason = "not a folder of this user alone";
    } else if (access(folder.c_str(), W_OK | X_OK) != 0) {
      reason = errno_text("write", errno);
    } else {
      return folder;
    }
    reason = fmt::format("{}: {}", printable(folder), reason);
  }
  return Failure{ErrorCode::kIo, reason};
}

Result<std::unique_ptr<PendingIndex>> PendingIndex::create(const std::string& folder,
                                                           const std::string& name) {
  remove_stale_builds(folder, name);
  // Not by mkdtemp, which lets nobody else in: an index is as readable as the shards beside it.
  std::random_device random;
  const std::string temporary =
      fmt::format("{}/{}{:08x}{:08x}", folder, temporary_prefix(name), random(), random());
  constexpr mode_t kMode = 0777;  // Less the umask.
  if (mkdir(temporary.c_str(), kMode) != 0) return system_failure(folder, "create folder", errno);
  auto files = FolderFiles::open_folder(temporary);
  if (!files) {
    rmdir(temporary.c_str());
    return files.error();
  }
  // Held while building: others see by it that the folder is not abandoned. Where the file system
  // has no locks, its age protects it.
  flock((*files)->fd(), LOCK_EX | LOCK_NB);
  return std::unique_ptr<PendingIndex>(
      new PendingIndex(temporary, folder + "/" + name, *std::move(files)));
}

PendingIndex::~PendingIndex() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

Result<void> PendingIndex::publish() {
  constexpr int kTries = 3;  // Others may put theirs in place between two of our steps.
  for (int i = 0; i < kTries; ++i) {
    if (rename(temporary_.c_str(), target_.c_str()) == 0) {
      temporary_.clear();
      break;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) return system_failure(target_, "rename", errno);
    // What was there comes to the temporary name, and goes with this object.
    if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
      break;
    }
    // No exchange on this file system: out of the way first. A reader in between makes its own.
    const std::string old = temporary_ + "-old";
    if (rename(target_.c_str(), old.c_str()) == 0) {
      std::error_code ignored;
      fs::remove_all(old, ignored);
    }
    if (i + 1 == kTries) return system_failure(target_, "rename", ENOTEMPTY);
  }
  const Fd parent(open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent) fsync(parent.get());
  return {};
}

void remove_stale_builds(const std::string& folder, const std::string& name) noexcept {
  const std::string prefix = temporary_prefix(name);
  remove_builds(folder, kStaleSeconds,
                [&](std::string_view entry) { return entry.starts_with(prefix); });
}

void remove_abandoned_builds(const std::string& folder) noexcept {
  remove_builds(
      folder, 0, [inner = temporary_prefix(std::string(kEnding))](std::string_view entry) {
        return entry.starts_with('.') && entry.find(inner.substr(1)) != std::string_view::npos;
      });
}

}  // namespace feedrace::formats
