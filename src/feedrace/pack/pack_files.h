// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/formats/class_list.h"
#include "feedrace/formats/packed_set.h"
#include "feedrace/formats/posix_file.h"
#include "feedrace/pack.h"

namespace feedrace::pack {

// Names of files that only a run that is not finished has; all begin with a dot, and none is left
// in a finished folder.
using formats::kWorkPrefix;
/// "" of the whole, "part-3-of-16." of a part.
std::string part_tag(const PackPart& part);
std::string lock_name(const PackPart& part);
std::string journal_name(const PackPart& part);
/// Of what is being written and will be called `name`.
std::string temporary_name(const PackPart& part, std::string_view name);

using formats::kClassListFile;
/// "PREFIX-000042.tar".
std::string shard_name(std::string_view prefix, std::uint64_t number);

/// The folder that is packed into, held by its descriptor.
class PackFolder {
 public:
  /// Makes the folder, and those above it, where it is not there. Failures: kIo; kInvalidArgument
  /// for what is no folder.
  static Result<PackFolder> open(const std::string& path, bool create);

  int fd() const noexcept { return fd_.get(); }
  const std::string& path() const noexcept { return path_; }
  std::string path_of(std::string_view name) const;

  /// All names in it, sorted, without "." and "..".
  Result<std::vector<std::string>> names() const;
  /// The content of a small file. Failures: kNotFound, kIo.
  Result<std::string> read(std::string_view name) const;
  /// Puts a file in place in one step, on the disk when it returns.
  Result<void> write(const PackPart& part, std::string_view name, std::string_view content) const;
  /// Nothing where it is not there.
  Result<void> remove(const std::string& name) const;
  /// Bytes that this user may still write.
  Result<std::uint64_t> free_bytes() const;

 private:
  PackFolder(formats::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  formats::Fd fd_;
  std::string path_;
};

/// Keeps other runs out of a folder for as long as it lives; the kernel lets go of it when the
/// process dies.
class PackLock {
 public:
  /// Of the whole folder, or of a part of it, which other parts do not disturb. `folder` outlives
  /// it and stays where it is. Failures: kInvalidArgument, which names the other process; kIo.
  static Result<PackLock> take(const PackFolder& folder, const PackPart& part);
  PackLock(PackLock&& other) noexcept
      : folder_(std::exchange(other.folder_, nullptr)),
        whole_(std::move(other.whole_)),
        own_(std::move(other.own_)),
        part_(other.part_) {}
  PackLock& operator=(PackLock&&) = delete;
  /// Removes the file of the lock, then lets go.
  ~PackLock();

 private:
  PackLock() = default;

  const PackFolder* folder_ = nullptr;  // Null: nothing is held.
  formats::Fd whole_;                   // Exclusive of the whole; shared of a part.
  formats::Fd own_;                     // Of a part.
  PackPart part_;
};

/// Free bytes on the disk of `path`, or of the nearest folder above it that is there.
Result<std::uint64_t> free_bytes_at(const std::string& path);

/// True when the message of an error says that disk or quota is full.
bool says_full(std::string_view message);

}  // namespace feedrace::pack
