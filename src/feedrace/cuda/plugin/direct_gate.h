// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace feedrace::cuda_plugin {

/// What of the system cuFile depends on. `root` goes before every path: "" but in tests.
struct DirectGate {
  explicit DirectGate(const std::string& root);

  bool modules_readable = false;  ///< /proc/modules.
  bool udev_readable = false;     ///< /run/udev.
  std::string nvidia_fs_version;  ///< Empty: not loaded.
  long nvidia_fs_devices = 0;     ///< As /proc/driver/nvidia-fs/devcount says.
  bool has_nodes = false;         ///< Some /dev/nvidia-fs*.

  /// The first reason not to start cuFile, with what to do; empty when it may be started.
  std::string refusal() const;
};

/// Puts descriptor 0 back if it was closed while this lived: cuFile closes it where nvidia-fs is
/// loaded and fails to start, and the next file opened by anybody would then be "stdin".
class StdinGuard {
 public:
  StdinGuard() noexcept;
  ~StdinGuard();
  StdinGuard(const StdinGuard&) = delete;
  StdinGuard& operator=(const StdinGuard&) = delete;

 private:
  int saved_;  ///< -1 when 0 was not open.
};

}  // namespace feedrace::cuda_plugin
