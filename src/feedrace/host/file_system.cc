// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/host/mounts.h"
#include "feedrace/host/sys_text.h"

namespace feedrace::host {
namespace {

enum Trait : unsigned { kPlain = 0, kInMemory = 1, kOnNetwork = 2, kExactEnds = 4 };

struct Kind {
  std::uint32_t magic;
  const char* type;
  unsigned traits;
};

// statfs(2), linux/magic.h, and the sources of those outside of the kernel.
constexpr std::array kKinds = {
    Kind{0xef53, "ext4", kExactEnds},
    Kind{0x58465342, "xfs", kExactEnds},
    Kind{0x9123683e, "btrfs", kExactEnds},
    Kind{0xf2f52010, "f2fs", kExactEnds},
    Kind{0x01021994, "tmpfs", kInMemory},
    Kind{0x858458f6, "ramfs", kInMemory},
    Kind{0x958458f6, "hugetlbfs", kInMemory},
    Kind{0x794c7630, "overlay", kPlain},
    Kind{0x65735546, "fuse", kPlain},
    Kind{0x6969, "nfs", kOnNetwork},
    Kind{0xff534d42, "cifs", kOnNetwork},
    Kind{0xfe534d42, "cifs", kOnNetwork},
    Kind{0x517b, "cifs", kOnNetwork},
    Kind{0x01021997, "9p", kOnNetwork},
    Kind{0x00c36400, "ceph", kOnNetwork},
    Kind{0x0bd00bd0, "lustre", kOnNetwork},
    Kind{0x47504653, "gpfs", kOnNetwork},
    Kind{0x19830326, "beegfs", kOnNetwork},
    Kind{0x5346414f, "afs", kOnNetwork},
    Kind{0x6b414653, "afs", kOnNetwork},
    Kind{0x2fc12fc1, "zfs", kPlain},
    Kind{0xca451a4e, "bcachefs", kPlain},
    Kind{0x73717368, "squashfs", kPlain},
    Kind{0xe0f5e1e2, "erofs", kPlain},
    Kind{0x5a4f4653, "zonefs", kPlain},
    Kind{0x9660, "iso9660", kPlain},
    Kind{0x4d44, "vfat", kPlain},
    Kind{0x2011bab0, "exfat", kPlain},
    Kind{0x7366746e, "ntfs3", kPlain},
    Kind{0x9fa0, "proc", kPlain},
    Kind{0x62656572, "sysfs", kPlain},
};

const Kind* kind_of(std::uint32_t magic) {
  const auto found =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.magic == magic; });
  return found == kKinds.end() ? nullptr : &*found;
}

// The C library's headers may be older than the kernel.
constexpr unsigned kStatxDirectAlignment = 0x2000;
constexpr unsigned kStatxDirectReadAlignment = 0x20000;
constexpr int kReadUncached = 0x80;

/// struct statx of Linux 6.14, as far as it matters here.
struct Statx {
  std::uint32_t mask;
  std::array<std::byte, 148> before;
  std::uint32_t address_alignment;
  std::uint32_t offset_alignment;
  std::array<std::byte, 20> between;
  std::uint32_t read_offset_alignment;
  std::array<std::byte, 72> after;
};
static_assert(sizeof(Statx) == 256);

constexpr std::size_t kLeastAlignment = 512;
constexpr std::size_t kUsualAlignment = 4096;

/// What an O_DIRECT read must be a multiple of: as the file system says; where it says nothing
/// (btrfs, kernels before 6.1) 4096; 0 where it says that it has no such reads.
std::size_t reported_alignment(int fd) {
  Statx info{};
  const unsigned wanted = kStatxDirectAlignment | kStatxDirectReadAlignment;
  if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, wanted, &info) != 0) return kUsualAlignment;
  if ((info.mask & kStatxDirectAlignment) == 0) return kUsualAlignment;
  if (info.offset_alignment == 0) return 0;
  const bool has_own = (info.mask & kStatxDirectReadAlignment) != 0;
  const bool is_own = has_own && info.read_offset_alignment != 0;
  const std::size_t offset = is_own ? info.read_offset_alignment : info.offset_alignment;
  return std::max({kLeastAlignment, std::size_t{info.address_alignment}, offset});
}

/// One block from the start of the file; 0 or the error.
int read_block(int fd, std::size_t alignment_bytes) {
  const auto release = [](void* memory) { std::free(memory); };
  const std::unique_ptr<void, decltype(release)> block(
      std::aligned_alloc(alignment_bytes, alignment_bytes), release);
  if (!block) return ENOMEM;
  return pread(fd, block.get(), alignment_bytes, 0) < 0 ? errno : 0;
}

void probe_direct_reads(const std::string& path, FileSystem& found) {
  if (found.is_in_memory) {  // It takes the flag since Linux 6.6, and copies as ever.
    found.direct_refusal = found.type + " keeps files in memory, so O_DIRECT saves nothing";
    return;
  }
  const auto refuse = [&](const char* call, int error_number) {
    found.direct_refusal = fmt::format("{}: O_DIRECT {} fails ({})", found.type, call,
                                       std::generic_category().message(error_number));
  };
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!fd) return refuse("open", errno);
  const std::size_t reported = reported_alignment(fd.get());
  if (reported == 0) {
    found.direct_refusal = found.type + ": the file system has no O_DIRECT for this file";
    return;
  }
  // Stacked file systems hand on the alignment of what they lie on without keeping to it.
  for (const std::size_t alignment : {reported, std::max(reported, kUsualAlignment)}) {
    const int error_number = read_block(fd.get(), alignment);
    if (error_number == 0) {
      found.direct_alignment_bytes = alignment;
      found.direct_refusal.clear();
      return;
    }
    refuse("read", error_number);
    if (error_number != EINVAL) return;
  }
}

bool has_uncached_reads(int fd) {
  std::array<std::byte, 4096> block;
  const iovec place = {block.data(), block.size()};
  return preadv2(fd, &place, 1, 0, kReadUncached) >= 0;
}

void find_mount(const std::string& path, const std::string& root, FileSystem& found,
                std::string& mount_type) {
  std::error_code unknown;
  const auto real = std::filesystem::canonical(path, unknown);
  if (unknown) return;
  const auto table = text_of(std::filesystem::path(root) / "proc/self/mountinfo");
  const auto mount = mount_of(parse_mounts(table), real.native());
  if (!mount) return;
  found.mount_point = mount->point;
  found.mount_source = mount->source;
  found.mount_options = mount->options;
  mount_type = mount->type;
}

/// What the layers of an overlay are. It reads as they do; in a container they can't be seen.
struct Layers {
  bool have_exact_ends = false;  // All of them.
  bool are_in_memory = false;    // Any of them: a file may lie there.
};

Layers layers_of(const std::string& options) {
  const auto layers = overlay_layers(options);
  Layers found{!layers.empty(), false};
  for (const auto& layer : layers) {
    struct statfs info{};
    const bool is_known = statfs(layer.c_str(), &info) == 0;
    const Kind* kind = is_known ? kind_of(static_cast<std::uint32_t>(info.f_type)) : nullptr;
    const auto has = [&](auto trait) { return kind != nullptr && (kind->traits & trait) != 0; };
    found.have_exact_ends = found.have_exact_ends && has(kExactEnds);
    found.are_in_memory = found.are_in_memory || has(kInMemory);
  }
  return found;
}

void name_kind(std::uint32_t magic, const std::string& mount_type, FileSystem& found) {
  const Kind* kind = kind_of(magic);
  if (kind == nullptr) {
    found.type = mount_type.empty() ? fmt::format("0x{:x}", magic) : mount_type;
    return;
  }
  found.type = kind->type;
  found.is_in_memory = (kind->traits & kInMemory) != 0;
  found.is_on_network = (kind->traits & kOnNetwork) != 0;
  found.has_exact_ends = (kind->traits & kExactEnds) != 0;
  if (found.type != "overlay") return;
  const Layers layers = layers_of(found.mount_options);
  found.has_exact_ends = layers.have_exact_ends;
  found.is_in_memory = layers.are_in_memory;
}

Failure failure(const std::string& path, const char* call, int error_number) {
  const bool is_missing = error_number == ENOENT || error_number == ENOTDIR ||
                          error_number == ELOOP || error_number == ENAMETOOLONG;
  return {is_missing ? ErrorCode::kNotFound : ErrorCode::kIo,
          fmt::format("{}: its file system can't be told ({}); {}", printable(path),
                      errno_text(call, error_number),
                      is_missing ? "check the path" : "let this user read the file")};
}

}  // namespace

Result<FileSystem> probe_file_system(const std::string& path, const std::string& root) {
  // Not blocking, as the path may be a FIFO.
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return failure(path, "open", errno);
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return failure(path, "fstat", errno);
  if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
    return Failure{S_ISDIR(info.st_mode) ? ErrorCode::kNotFound : ErrorCode::kIo,
                   printable(path) + ": is neither a file nor a block device; name a file"};
  }
  FileSystem found;
  if (S_ISBLK(info.st_mode)) {
    found.type = "block";
    found.device = info.st_rdev;
    found.has_exact_ends = true;
  } else {
    struct statfs volume{};
    if (fstatfs(fd.get(), &volume) != 0) return failure(path, "fstatfs", errno);
    constexpr auto kReadOnly = decltype(volume.f_flags){1};  // ST_RDONLY
    found.device = info.st_dev;
    found.is_read_only = (volume.f_flags & kReadOnly) != 0;
    std::string mount_type;
    find_mount(path, root, found, mount_type);
    name_kind(static_cast<std::uint32_t>(volume.f_type), mount_type, found);
  }
  probe_direct_reads(path, found);
  found.has_uncached_reads = has_uncached_reads(fd.get());
  return found;
}

}  // namespace feedrace::host
