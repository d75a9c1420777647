// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/file_cache.h"

#include <sys/resource.h>

#include <algorithm>

namespace feedrace::pipeline {

std::size_t FileCache::default_capacity() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1024;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 16, 1024);
}

Result<std::shared_ptr<storage::File>> FileCache::open(const std::string& path) {
  if (const auto found = by_path_.find(path); found != by_path_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, found->second);
    return found->second->second;
  }
  auto opened = backend_.open(path);
  if (!opened) return opened.error();
  if (by_use_.size() >= capacity_) {
    by_path_.erase(by_use_.back().first);
    by_use_.pop_back();
  }
  by_use_.emplace_front(path, std::shared_ptr<storage::File>(std::move(*opened)));
  by_path_[path] = by_use_.begin();
  return by_use_.front().second;
}

}  // namespace feedrace::pipeline
