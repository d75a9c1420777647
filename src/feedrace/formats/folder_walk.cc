// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/folder_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/format.h"
#include "feedrace/formats/posix_file.h"
#include "feedrace/formats/shard_index.h"

namespace feedrace::formats {
namespace {

constexpr std::string_view kInRoot =
    "images beside the class folders left out, as they have no class";
constexpr std::string_view kDangling = "links to nothing left out";
constexpr std::string_view kNoFile =
    "left out, as they are no regular files (pipe, socket or device)";
constexpr std::string_view kTooLong = "left out, as their path is longer than the system opens";
constexpr std::string_view kLoop = "links to a folder above left out";
// What torchvision's ImageFolder takes besides, so that its samples have other numbers.
constexpr std::array<std::string_view, 5> kOfImageFolder = {".bmp", ".pgm", ".ppm", ".tif",
                                                            ".tiff"};
// What people keep among their pictures, and torchvision leaves out as well.
constexpr std::array<std::string_view, 5> kOfNobody = {".avif", ".gif", ".heic", ".jp2", ".jxl"};

bool ends_with(std::string_view name, std::string_view ending) noexcept {
  if (name.size() < ending.size()) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(ending.begin(), ending.end(), name.substr(name.size() - ending.size()).begin(),
                    [&](char a, char b) { return a == lower(b); });
}

/// Why a picture is left out whose kind is not decoded; "" for what has the ending of no picture.
std::string undecoded_kind(std::string_view name) {
  for (const std::string_view ending : kOfImageFolder) {
    if (!ends_with(name, ending)) continue;
    return fmt::format(
        "left out, as {} is not decoded (torchvision's ImageFolder has these samples; convert them "
        "to .png)",
        ending);
  }
  for (const std::string_view ending : kOfNobody) {
    if (ends_with(name, ending)) return fmt::format("left out, as {} is not decoded", ending);
  }
  return "";
}

struct CloseDir {
  void operator()(DIR* dir) const noexcept { closedir(dir); }
};
using Dir = std::unique_ptr<DIR, CloseDir>;

enum class EntryKind { kFolder, kFile, kNothing, kSpecial };

/// What an entry is once links are followed. Only links, and file systems that do not tell, cost a
/// system call.
EntryKind kind_of(int folder, const dirent& entry) {
  if (entry.d_type == DT_REG) return EntryKind::kFile;
  if (entry.d_type == DT_DIR) return EntryKind::kFolder;
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return EntryKind::kSpecial;
  struct stat status{};
  if (fstatat(folder, entry.d_name, &status, 0) != 0) {
    if (errno == EIO || errno == ENOMEM || errno == ESTALE) {
      throw Error(ErrorCode::kIo, fmt::format("{}: {}; look at the device or mount",
                                              printable(entry.d_name), errno_text("stat", errno)));
    }
    return EntryKind::kNothing;
  }
  if (S_ISREG(status.st_mode)) return EntryKind::kFile;
  return S_ISDIR(status.st_mode) ? EntryKind::kFolder : EntryKind::kSpecial;
}

/// Opens a folder below `parent`; an open error leaves errno.
Dir open_dir(int parent, const char* name) noexcept {
  Fd fd(openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return nullptr;
  Dir dir(fdopendir(fd.get()));
  if (dir) fd.release();
  return dir;
}

/// Walks one class folder by descriptors, so that no path is too long for the walk itself.
class Walk {
 public:
  Walk(const std::string& root, const Endings& endings, ClassListing& out)
      : root_bytes_(root.size()), endings_(endings), out_(out) {}

  void run(const std::string& root, const std::string& name) {
    const Dir top = open_dir(AT_FDCWD, root.c_str());
    if (!top) return unreadable(name, errno);
    struct stat status{};
    if (fstat(dirfd(top.get()), &status) != 0) return unreadable(name, errno);
    above_.emplace_back(status.st_dev, status.st_ino);
    enter(dirfd(top.get()), name.c_str(), name);
    gather();
  }

 private:
  struct Folder {
    std::string path;
    std::string names;  ///< Each ended by a 0 byte.
    std::vector<std::size_t> begins;
  };

  /// What the data set's owner has closed or removed is left out and said. Everything else (no
  /// descriptors left, a failing device) is this machine's trouble now: going on would give another
  /// set of samples in silence.
  void unreadable(const std::string& path, int error_number) {
    constexpr std::array kOwners = {EACCES, EPERM, ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG};
    if (std::find(kOwners.begin(), kOwners.end(), error_number) == kOwners.end()) {
      throw Error(ErrorCode::kIo,
                  fmt::format("{}: the folder can't be read ({}); the list of samples would not be "
                              "complete: raise the limit (ulimit -n) or look at the device",
                              printable(path), errno_text("open", error_number)));
    }
    out_.findings.add(fmt::format("{} ({})", kUnreadableFolders, errno_text("open", error_number)),
                      path);
  }

  void enter(int parent, const char* name, const std::string& path) {
    const Dir dir = open_dir(parent, name);
    if (!dir) return unreadable(path, errno);
    const int fd = dirfd(dir.get());
    struct stat status{};
    if (fstat(fd, &status) != 0) return unreadable(path, errno);
    const std::pair<dev_t, ino_t> self(status.st_dev, status.st_ino);
    if (std::find(above_.begin(), above_.end(), self) != above_.end()) {
      out_.findings.add(kLoop, path);
      return;
    }
    above_.push_back(self);
    for (const std::string& inner : read_entries(dir.get(), path)) {
      std::string inner_path = path;
      inner_path.append("/").append(inner);
      enter(fd, inner.c_str(), inner_path);
    }
    above_.pop_back();
  }

  /// Notes the images of one folder and returns the names of the folders in it.
  std::vector<std::string> read_entries(DIR* dir, const std::string& path) {
    std::vector<std::string> inner;
    Folder folder{path, {}, {}};
    errno = 0;
    while (const dirent* entry = readdir(dir)) {
      const std::string_view name = entry->d_name;
      if (!name.starts_with('.')) take(dirfd(dir), *entry, folder, inner);
      errno = 0;
    }
    if (errno != 0) unreadable(path, errno);
    if (!folder.begins.empty()) folders_.push_back(std::move(folder));
    return inner;
  }

  void take(int fd, const dirent& entry, Folder& folder, std::vector<std::string>& inner) {
    const std::string_view name = entry.d_name;
    const bool is_image = has_ending_of(name, endings_);
    const EntryKind kind = kind_of(fd, entry);
    const bool fits = root_bytes_ + 1 + folder.path.size() + 1 + name.size() < PATH_MAX;
    const auto full = [&] { return folder.path + "/" + std::string(name); };
    if (!fits && (is_image || kind == EntryKind::kFolder)) {
      out_.findings.add(kTooLong, full());
    } else if (kind == EntryKind::kFolder) {
      inner.emplace_back(name);
    } else if (is_image && kind == EntryKind::kNothing) {
      out_.findings.add(kDangling, full());
    } else if (is_image && kind == EntryKind::kSpecial) {
      out_.findings.add(kNoFile, full());
    } else if (is_image) {
      folder.begins.push_back(folder.names.size());
      folder.names.append(name).push_back('\0');
    } else if (kind == EntryKind::kFile && are_pictures_) {
      const std::string why = undecoded_kind(name);
      if (!why.empty()) out_.findings.add(why, full());
    }
  }

  /// By folder, then name: the order in which torchvision numbers its samples.
  void gather() {
    const auto by_path = [](const Folder& a, const Folder& b) { return a.path < b.path; };
    std::sort(folders_.begin(), folders_.end(), by_path);
    for (Folder& folder : folders_) {
      const auto name_at = [&](std::size_t begin) {
        return std::string_view(folder.names.c_str() + begin);
      };
      std::sort(folder.begins.begin(), folder.begins.end(),
                [&](std::size_t a, std::size_t b) { return name_at(a) < name_at(b); });
      for (const std::size_t begin : folder.begins) out_.paths.append(folder.path, name_at(begin));
    }
  }

  const std::size_t root_bytes_;
  const Endings& endings_;
  const bool are_pictures_ = endings_ == OpenOptions().file_endings;
  ClassListing& out_;
  std::vector<std::pair<dev_t, ino_t>> above_;  // Folders that the walk is inside of.
  std::vector<Folder> folders_;
};

/// True for the index of shards that lie, or once lay, in the same folder: no class.
bool is_shard_index(int folder, const std::string& name) {
  struct stat status{};
  return name.ends_with(".frindex") &&
         fstatat(folder, (name + "/" + kMetaFile).c_str(), &status, 0) == 0;
}

}  // namespace

bool has_ending_of(std::string_view name, const Endings& endings) noexcept {
  return std::any_of(endings.begin(), endings.end(),
                     [&](const std::string& ending) { return ends_with(name, ending); });
}

void NameList::append(std::string_view folder, std::string_view name) {
  bytes.append(folder).append("/").append(name);
  begins.push_back(bytes.size());
}

RootListing list_root(const std::string& root, const Endings& endings) {
  const Dir dir = open_dir(AT_FDCWD, root.c_str());
  if (!dir) {
    Failure failure = system_failure(root, "open folder", errno);
    failure.message += "; check the path and the permission";
    raise(failure);
  }
  RootListing listing;
  errno = 0;
  while (const dirent* entry = readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (!name.starts_with('.')) {
      const EntryKind kind = kind_of(dirfd(dir.get()), *entry);
      const bool is_image = has_ending_of(name, endings);
      if (kind == EntryKind::kFolder) {
        if (!is_shard_index(dirfd(dir.get()), name)) listing.classes.push_back(name);
      } else {
        ++listing.file_count;
      }
      if (kind == EntryKind::kNothing) listing.findings.add(kDangling, name);
      if (kind == EntryKind::kFile && is_image) listing.findings.add(kInRoot, name);
      if (kind == EntryKind::kSpecial && is_image) listing.findings.add(kNoFile, name);
    }
    errno = 0;
  }
  if (errno != 0) raise(system_failure(root, "read folder", errno));
  std::sort(listing.classes.begin(), listing.classes.end());
  return listing;
}

ClassListing list_class(const std::string& root, const std::string& name, const Endings& endings) {
  ClassListing listing;
  Walk(root, endings, listing).run(root, name);
  return listing;
}

}  // namespace feedrace::formats
