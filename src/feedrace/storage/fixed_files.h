// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "feedrace/storage/uring_ring.h"

namespace feedrace::storage {

class FixedFiles;

/// A descriptor that has a place in a ring's table: reads name the place, and the kernel need not
/// look the descriptor up and count its use for each of them.
class FixedFile {
 public:
  FixedFile(std::shared_ptr<FixedFiles> table, int fd, unsigned index);
  FixedFile(const FixedFile&) = delete;
  FixedFile& operator=(const FixedFile&) = delete;
  ~FixedFile();

  int fd() const noexcept { return fd_; }
  unsigned index() const noexcept { return index_; }
  bool is_in(const FixedFiles* table) const noexcept { return table_.get() == table; }

 private:
  const std::shared_ptr<FixedFiles> table_;
  const int fd_;
  const unsigned index_;
};

/// The part of a ring's table of files that holds files opened by descriptor. The ring may go
/// before its files do.
class FixedFiles : public std::enable_shared_from_this<FixedFiles> {
 public:
  /// The places [first, first + count) of `ring`'s table.
  FixedFiles(UringRing& ring, unsigned first, unsigned count);

  /// In the ring's thread. Null when no place is free or the kernel refuses.
  std::shared_ptr<const FixedFile> add(int fd);
  /// In the ring's thread: lets go of files that have been closed since, so that the kernel can.
  void release_closed() noexcept;
  /// The ring is about to end.
  void detach() noexcept { ring_ = nullptr; }

 private:
  friend class FixedFile;
  void closed(unsigned index) noexcept;

  UringRing* ring_;
  std::vector<unsigned> free_;
  std::atomic<bool> has_closed_ = false;
  std::mutex mutex_;
  std::vector<unsigned> closed_;  // Guarded by mutex_. Still in the kernel's table.
};

}  // namespace feedrace::storage
