// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/direct_gate.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

namespace feedrace::cuda_plugin {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // Of a file that is not there: nothing, and no loop.
  return line;
}

bool has_node(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with("nvidia-fs")) return true;
  }
  return false;
}

}  // namespace

DirectGate::DirectGate(const std::string& root)
    : modules_readable(access((root + "/proc/modules").c_str(), R_OK) == 0),
      udev_readable(access((root + "/run/udev").c_str(), R_OK | X_OK) == 0),
      nvidia_fs_version(first_line(root + "/proc/driver/nvidia-fs/version")),
      nvidia_fs_devices(
          std::strtol(first_line(root + "/proc/driver/nvidia-fs/devcount").c_str(), nullptr, 10)),
      has_nodes(has_node(root + "/dev")) {}

std::string DirectGate::refusal() const {
  // cuFile 1.16 and newer read this file in a loop that never ends when it cannot be opened.
  if (!modules_readable) {
    return "/proc/modules cannot be read and cuFile would spin for ever looking for it; use a "
           "kernel "
           "built with modules, or read without cuFile";
  }
  if (!udev_readable) {
    return "/run/udev cannot be read and cuFile would refuse every file (5027); start the "
           "container "
           "with -v /run/udev:/run/udev:ro";
  }
  // The case in which cuFile's own way out closes descriptor 0.
  if (nvidia_fs_devices > 0 && !has_nodes) {
    return fmt::format(
        "nvidia-fs is loaded with {} devices but there is no /dev/nvidia-fs*; give the container "
        "these devices (--device /dev/nvidia-fs0 ...)",
        nvidia_fs_devices);
  }
  return {};
}

StdinGuard::StdinGuard() noexcept : saved_(fcntl(0, F_DUPFD_CLOEXEC, 3)) {}

StdinGuard::~StdinGuard() {
  if (saved_ < 0) return;
  // Only where nothing took its number since: that file would be somebody else's.
  if (fcntl(0, F_GETFD) < 0 && errno == EBADF) dup2(saved_, 0);
  close(saved_);
}

}  // namespace feedrace::cuda_plugin
