// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "feedrace/error.h"
#include "feedrace/format.h"

namespace feedrace::pipeline {

/// The list of bad samples: one JSON object a line, appended as they are found, each sample once a
/// run: {"shard", "key" (or "key_hex" where it is not UTF-8), "offset", "size", "sample", "epoch",
/// "code" (an error's, or "flagged" for a sample that was delivered all the same), "reason"}.
/// Thread-safe; a line is written in one piece, so ranks may share a file.
class Quarantine {
 public:
  /// An empty `path` writes nothing. Throws Error kIo when the file can't be appended to.
  explicit Quarantine(const std::string& path);
  ~Quarantine();
  Quarantine(const Quarantine&) = delete;
  Quarantine& operator=(const Quarantine&) = delete;

  /// Returns a Failure when the line could not be written (disk full).
  Result<void> add(const formats::Dataset& dataset, std::uint64_t sample, std::uint64_t epoch,
                   std::string_view code, std::string_view reason);

 private:
  const std::string path_;
  int fd_ = -1;
  std::mutex mutex_;
  std::unordered_set<std::uint64_t> written_;  // Guarded by mutex_. As many as there are bad ones.
};

}  // namespace feedrace::pipeline
