// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>

namespace feedrace::cuda_plugin {

Library::Library(std::string_view soname, const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    std::string path = folder + "/" + std::string(soname);
    if (access(path.c_str(), F_OK) == 0) names.push_back(std::move(path));
  }
  names.emplace_back(soname);
  for (const std::string& name : names) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    path_ = name;
    if (handle_ != nullptr) break;
    const char* why = dlerror();
    failure_ += (failure_.empty() ? "" : "; ") + std::string(why == nullptr ? "unknown" : why);
  }
  if (handle_ == nullptr) path_.clear();
  if (handle_ == nullptr || path_.find('/') != std::string::npos) return;
  // Copied by the dynamic linker: its own list belongs to it, and other threads may be opening too.
  char origin[PATH_MAX] = {};
  if (dlinfo(handle_, RTLD_DI_ORIGIN, static_cast<void*>(origin)) == 0) {
    path_ = std::string(origin) + "/" + path_;
  }
}

void* Library::symbol(const char* name) const noexcept {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

std::vector<std::string> folders_of(const char* list) {
  std::vector<std::string> folders;
  std::string_view rest = list == nullptr ? "" : list;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) folders.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return folders;
}

}  // namespace feedrace::cuda_plugin
