// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "feedrace/error.h"
#include "feedrace/format.h"

namespace feedrace::pipeline {

/// The list of bad samples of a run, in lines of `formats::BadSample`; "flagged" is a sample that
/// was delivered all the same.
///
/// All ranks of a run, and the runs that go on from it, may share one file: under a lock on it
/// each looks at the lines that came since, and adds only what is not there. A sample is listed
/// once as bad and once as flagged. Thread-safe. A pipe or device is written to without looking.
class Quarantine {
 public:
  /// An empty `path` writes nothing. Throws Error kIo when the file can't be appended to.
  explicit Quarantine(const std::string& path);
  ~Quarantine();
  Quarantine(const Quarantine&) = delete;
  Quarantine& operator=(const Quarantine&) = delete;

  /// Returns a Failure when the line could not be written (disk full); the file holds no part of it
  /// then, and the next call for the sample tries again.
  Result<void> add(const formats::Dataset& dataset, std::uint64_t sample, std::uint64_t epoch,
                   std::string_view code, std::string_view reason);

 private:
  /// XXH3 of 128 bits over what makes two lines the same.
  struct Identity {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    friend bool operator==(const Identity&, const Identity&) = default;
  };
  struct Low {
    std::size_t operator()(const Identity& identity) const noexcept { return identity.low; }
  };

  static Identity identity_of(std::string_view text);
  void open_shared();
  bool lock();
  void unlock();
  bool read_new_lines();
  void take_in(std::string_view line);
  Result<void> add_once(const std::string& identity, std::string line);
  Result<void> append(std::string_view text, bool is_locked);

  const std::string path_;
  int fd_ = -1;
  bool is_shared_ = false;  // A regular file that can be read.
  std::mutex mutex_;
  // All below guarded by mutex_.
  std::array<std::unordered_set<std::uint64_t>, 2> listed_;  // Samples: bad ones, flagged ones.
  std::unordered_set<Identity, Low> known_;                  // Of this process and of others.
  std::uint64_t seen_bytes_ = 0;  // Of the file: up to the end of a line.
  bool waits_ = true;             // For the lock; not again when it could not be had in time.
};

}  // namespace feedrace::pipeline
