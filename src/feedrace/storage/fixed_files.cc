// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/fixed_files.h"

#include <utility>

namespace feedrace::storage {

FixedFile::FixedFile(std::shared_ptr<FixedFiles> table, int fd, unsigned index)
    : table_(std::move(table)), fd_(fd), index_(index) {}

FixedFile::~FixedFile() { table_->closed(index_); }

FixedFiles::FixedFiles(UringRing& ring, unsigned first, unsigned count) : ring_(&ring) {
  free_.reserve(count);
  closed_.reserve(count);  // So that a file's end never allocates.
  for (unsigned i = count; i > 0; --i) free_.push_back(first + i - 1);
}

std::shared_ptr<const FixedFile> FixedFiles::add(int fd) {
  release_closed();
  if (ring_ == nullptr || free_.empty()) return nullptr;
  const unsigned index = free_.back();
  if (!ring_->set_file_slot(index, fd)) return nullptr;
  auto file = std::make_shared<const FixedFile>(shared_from_this(), fd, index);
  free_.pop_back();
  return file;
}

void FixedFiles::release_closed() noexcept {
  if (!has_closed_.exchange(false) || ring_ == nullptr) return;
  std::lock_guard lock(mutex_);
  for (const unsigned index : closed_) {
    // Fails in another thread than the ring's only, where no place is given out either.
    if (ring_->set_file_slot(index, -1)) free_.push_back(index);
  }
  closed_.clear();
}

void FixedFiles::closed(unsigned index) noexcept {
  std::lock_guard lock(mutex_);
  closed_.push_back(index);
  has_closed_ = true;
}

}  // namespace feedrace::storage
