// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace feedrace::cuda_plugin {

/// A library of NVIDIA, opened by name. Never closed: CUDA does not allow its teardown at exit.
class Library {
 public:
  Library() = default;
  /// Looks in the folders first, then where the loader looks. What was tried is kept in `failure`.
  Library(std::string_view soname, const std::vector<std::string>& folders);

  explicit operator bool() const noexcept { return handle_ != nullptr; }
  /// Where it was found.
  const std::string& path() const noexcept { return path_; }
  /// Why it was not, as the loader says it.
  const std::string& failure() const noexcept { return failure_; }
  /// Null when it has no such symbol.
  void* symbol(const char* name) const noexcept;

 private:
  void* handle_ = nullptr;
  std::string path_;
  std::string failure_;
};

/// Folders of "a:b:c", without empty ones.
std::vector<std::string> folders_of(const char* list);

}  // namespace feedrace::cuda_plugin
