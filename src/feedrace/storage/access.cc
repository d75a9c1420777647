// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/access.h"

#include <sys/stat.h>

#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::storage {
namespace {

// Folders that are remembered; ImageNet-21k has 21,841.
constexpr std::size_t kMaxFolders = 65'536;

constexpr const char* kUnaligned =
    "reads whose offset, size or address is not a multiple of the file's alignment go through the "
    "page cache; align them";

std::string_view folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? std::string_view("/") : path.substr(0, slash);
}

std::string place_of(const host::FileSystem& facts) {
  const std::string type = facts.type.empty() ? "this file system" : facts.type;
  return facts.mount_point.empty() ? type
                                   : fmt::format("{} at {}", type, printable(facts.mount_point));
}

const char* instead_of_direct(const host::FileSystem& facts) {
  if (facts.has_uncached_reads) return "reads go through the page cache and leave no pages there";
  return facts.is_in_memory ? "reads copy out of that memory"
                            : "reads go through the page cache, whose pages are given up behind";
}

}  // namespace

FileSystemAccess::FileSystemAccess(const AccessOptions& options, host::FileSystem facts)
    : wanted_(options.wanted),
      strict_(options.strict),
      log_(options.log),
      facts_(std::move(facts)),
      is_direct_(wanted_ == Access::kDirect && facts_.direct_alignment_bytes > 0),
      is_uncached_(wanted_ != Access::kPageCache && facts_.has_uncached_reads),
      unaligned_(log_->counter(kUnaligned)) {
  if (wanted_ == Access::kDirect && !is_direct_) {
    refuse(
        fmt::format("O_DIRECT is not used on {}: {}; {}", place_of(facts_),
                    facts_.direct_refusal.empty() ? "it could not be asked" : facts_.direct_refusal,
                    instead_of_direct(facts_)));
  } else if (wanted_ == Access::kUncached && !is_uncached_ && !facts_.is_in_memory) {
    refuse(fmt::format(
        "uncached reads (RWF_DONTCACHE) are not supported by {}; pages are given up behind the "
        "read by posix_fadvise instead",
        place_of(facts_)));
  }
}

void FileSystemAccess::refuse(std::string why) {
  counter_ = &log_->counter(why);
  sentence_ = std::move(why);
}

// The reason stands before the way is given up: whoever sees that it is given up finds why.
void FileSystemAccess::direct_failed(int error_number) {
  std::lock_guard lock(mutex_);
  if (!is_direct_) return;
  refuse(fmt::format("O_DIRECT is not used on {}: it is offered, but fails ({}); {}",
                     place_of(facts_), errno_text("read", error_number),
                     instead_of_direct(facts_)));
  is_direct_ = false;
}

void FileSystemAccess::uncached_failed() {
  std::lock_guard lock(mutex_);
  if (!is_uncached_) return;
  if (wanted_ == Access::kUncached) {
    refuse(fmt::format(
        "uncached reads (RWF_DONTCACHE) fail on {}; pages are given up behind the read by "
        "posix_fadvise instead",
        place_of(facts_)));
  }
  is_uncached_ = false;
}

std::optional<std::string> FileSystemAccess::count_fallback() noexcept {
  FallbackLog::Counter* counter = counter_;
  const bool is_unaligned = counter == nullptr && wanted_ == Access::kDirect;
  if (is_unaligned) counter = &unaligned_;
  if (counter == nullptr) return std::nullopt;
  ++*counter;
  if (!strict_) return std::nullopt;
  if (is_unaligned) return kUnaligned;
  std::lock_guard lock(mutex_);
  return sentence_;
}

AccessTable::AccessTable(AccessOptions options, Probe probe)
    : options_(std::move(options)), probe_(probe ? std::move(probe) : [](const std::string& path) {
        return host::probe_file_system(path);
      }) {
  if (!options_.log) options_.log = std::make_shared<FallbackLog>();
}

std::shared_ptr<FileSystemAccess> AccessTable::of_device(std::uint64_t device,
                                                         const std::string& path) {
  std::lock_guard lock(mutex_);
  if (const auto found = devices_.find(device); found != devices_.end()) return found->second;
  host::FileSystem facts;
  bool is_known = true;
  if (options_.wanted != Access::kPageCache) {
    auto probed = probe_(path);
    is_known = static_cast<bool>(probed);
    if (probed) facts = *std::move(probed);
  }
  auto access = std::make_shared<FileSystemAccess>(options_, std::move(facts));
  // What one file could not tell, the next one may.
  if (is_known) devices_.emplace(device, access);
  return access;
}

std::shared_ptr<FileSystemAccess> AccessTable::of_folder(const char* path) {
  const std::string_view folder = folder_of(path);
  {
    std::lock_guard lock(mutex_);
    if (const auto found = folders_.find(folder); found != folders_.end()) return found->second;
  }
  struct stat in_folder{};
  struct stat info{};
  // Also the file, without following it: a probe of a link's target would judge another place.
  if (stat(std::string(folder).c_str(), &in_folder) != 0 || lstat(path, &info) != 0) return nullptr;
  if (S_ISLNK(info.st_mode)) folder_has_links(path);
  if (!S_ISREG(info.st_mode) || info.st_dev != in_folder.st_dev) return nullptr;
  auto access = of_device(info.st_dev, path);
  std::lock_guard lock(mutex_);
  if (folders_.size() >= kMaxFolders) folders_.clear();
  folders_.emplace(folder, access);
  return access;
}

void AccessTable::folder_has_links(const char* path) {
  std::lock_guard lock(mutex_);
  folders_.insert_or_assign(std::string(folder_of(path)), nullptr);
}

}  // namespace feedrace::storage
