// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/pack/pack_source.h"

namespace feedrace::pack {

/// Sizes and times of files, asked for once.
class SourceFiles {
 public:
  /// Asks for file i of `count` at `path_of(i)`, on several threads, and tells `looked` of it on
  /// the caller's.
  SourceFiles(std::size_t count, std::size_t thread_count,
              const std::function<std::string(std::size_t)>& path_of, const Looked& looked);

  /// Fills in where the bytes of file `i` at `path` are. Failure: what was found when it was asked.
  Result<void> fill(std::size_t i, std::string path, SourceMember& member) const;
  std::uint64_t memory_bytes() const noexcept { return stamps_.size() * sizeof(Stamp); }

 private:
  struct Stamp {
    std::int64_t mtime_ns = 0;
    std::uint64_t size_bytes = 0;
    int error_number = 0;  ///< Of `stat`; -1: no regular file.
  };
  static Stamp stamp_of(const std::string& path);

  std::vector<Stamp> stamps_;
};

/// The field of a picture by its file's ending: lower case, "jpg" for "jpeg" too, as other readers
/// of shards ask for it. `name` holds a dot.
std::string picture_field(std::string_view name);

}  // namespace feedrace::pack
