// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "feedrace/backend.h"
#include "feedrace/error.h"

namespace feedrace::pipeline {

/// Keeps the most recently used shards open: a global shuffle over ten thousand shards must not run
/// into the limit on open files. One instance serves one thread; its files may outlive it.
class FileCache {
 public:
  /// `capacity` files at most, at least 1.
  FileCache(storage::Backend& backend, std::size_t capacity)
      : backend_(backend), capacity_(capacity) {}

  /// The number of files that a process may keep open for shards: a quarter of its soft limit,
  /// within [16, 1024]. A file may take two descriptors, one with O_DIRECT; half of them are left
  /// to the host program.
  static std::size_t default_capacity();

  Result<std::shared_ptr<storage::File>> open(const std::string& path);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<storage::File>>;

  storage::Backend& backend_;
  const std::size_t capacity_;
  std::list<Entry> by_use_;  // The most recent first.
  std::unordered_map<std::string, std::list<Entry>::iterator> by_path_;
};

}  // namespace feedrace::pipeline
