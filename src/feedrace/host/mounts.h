// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace feedrace::host {

/// A line of /proc/self/mountinfo.
struct Mount {
  std::string point;    ///< Where it is mounted: an absolute path.
  std::string type;     ///< As `mount -t` has it: "ext4", "fuse.sshfs".
  std::string source;   ///< "/dev/nvme0n1p2", "server:/export", "overlay".
  std::string options;  ///< Of the mount, then those of the file system that it does not repeat.
};

/// Lines that are no mounts are left out. Escapes (\040 is a space) are decoded.
std::vector<Mount> parse_mounts(std::string_view text);

/// The mount that a file lies on: the one with the longest point above `path`, the last of equals,
/// as later mounts cover earlier ones. `path` is absolute and without links.
std::optional<Mount> mount_of(const std::vector<Mount>& mounts, std::string_view path);

/// The folders that an overlay is made of, from its options; empty when they don't all stand there
/// or can't be told apart.
std::vector<std::string> overlay_layers(std::string_view options);

}  // namespace feedrace::host
