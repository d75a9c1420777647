// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "feedrace/error.h"

namespace feedrace::host {

/// What the file system under a file can do for a reader. Found out by trying: names and versions
/// promise more than containers, network mounts and stacked file systems keep.
struct FileSystem {
  /// "ext4" (ext2 and ext3 too), "xfs", "btrfs", "tmpfs", "overlay", "nfs", "fuse", ...; "block"
  /// for a block device itself; "0x..." when unknown.
  std::string type;
  /// st_dev of the file; of a block device its own number. Major 0 is an anonymous number, behind
  /// which no device can be found (overlay, btrfs, tmpfs, network).
  std::uint64_t device = 0;
  /// Of the nearest mount above the file. Empty: unknown, or a block device.
  std::string mount_point;
  std::string mount_source;
  std::string mount_options;
  bool is_read_only = false;
  bool is_in_memory = false;   ///< tmpfs, ramfs, hugetlbfs.
  bool is_on_network = false;  ///< nfs, cifs, 9p, ceph, lustre, gpfs, beegfs, afs.
  /// A short O_DIRECT read can only be the end of the file: ext4, xfs, btrfs, f2fs, block devices,
  /// and an overlay of nothing but these.
  bool has_exact_ends = false;
  /// Offsets, sizes and addresses of O_DIRECT reads are multiples of it; at least 512. 0: O_DIRECT
  /// is of no use here.
  std::size_t direct_alignment_bytes = 0;
  /// One clause that says why not: "fuse: O_DIRECT open fails (Invalid argument)". Empty where it
  /// is of use.
  std::string direct_refusal;
  bool has_uncached_reads = false;  ///< RWF_DONTCACHE works: read and leave nothing cached.
};

/// `path` is a regular file or a block device. Reads one block of it by O_DIRECT and up to 4 KiB
/// with RWF_DONTCACHE; an empty file answers without a read. Mounts are looked up under `root`
/// (tests). Any thread. Failures: kNotFound (no such file, a folder), kIo (permission, not a file).
Result<FileSystem> probe_file_system(const std::string& path, const std::string& root = "/");

}  // namespace feedrace::host
