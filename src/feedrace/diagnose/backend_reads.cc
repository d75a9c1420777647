// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/backend_reads.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/core/text.h"
#include "feedrace/storage/clock.h"

namespace feedrace::diagnose {
namespace {

using storage::Backend;
using storage::Completion;
using storage::File;
using storage::ReadRequest;

class BackendReads final : public ReadPath {
 public:
  BackendReads(std::unique_ptr<Backend> backend, IoJob job)
      : job_(std::move(job)),
        memory_(job_.queue_depth * job_.block_bytes),
        ready_(job_.queue_depth),
        completions_(job_.queue_depth),
        backend_(std::move(backend)) {
    memory_.touch();
  }

  Result<void> set_up(bool registered) {
    if (registered) {
      if (auto done = backend_->register_memory(memory_.bytes()); !done) return done;
    }
    auto opened = open_files_of(job_, *backend_);
    if (!opened) return opened.error();
    files_ = *std::move(opened);
    return {};
  }

  Result<void> check(const BlockOrder& order, std::uint64_t count) override {
    for (std::uint64_t first = 0; first < count; first += job_.queue_depth) {
      const std::uint64_t part = std::min<std::uint64_t>(job_.queue_depth, count - first);
      for (std::uint64_t slot = 0; slot < part; ++slot) {
        aim(ready_[slot], order.at(first + slot), slot);
      }
      if (auto done = finish_and_compare(part); !done) return done;
    }
    return {};
  }

  Result<ReadCounts> read(const BlockOrder& order, const RunLimits& limits) override {
    ReadCounts counts;
    std::optional<Failure> failure;
    const std::uint64_t calls_before = backend_->system_calls();
    const std::uint64_t end_ns =
        storage::now_ns() + static_cast<std::uint64_t>(limits.seconds * 1e9);
    std::uint64_t next = 0;  // Position of the order that is read next.
    std::size_t ready_count = 0;
    for (; ready_count < job_.queue_depth && next < limits.block_count; ++ready_count, ++next) {
      aim(ready_[ready_count], order.at(next), ready_count);
    }
    bool goes_on = true;
    std::size_t in_flight = 0;
    while (ready_count > 0 || in_flight > 0) {
      const std::size_t taken = backend_->submit(std::span(ready_).first(ready_count));
      in_flight += taken;
      // What was not taken goes in front of what comes back.
      std::move(ready_.begin() + static_cast<std::ptrdiff_t>(taken),
                ready_.begin() + static_cast<std::ptrdiff_t>(ready_count), ready_.begin());
      ready_count -= taken;
      const std::size_t done = backend_->wait(completions_, 1);
      in_flight -= done;
      goes_on = goes_on && storage::now_ns() < end_ns && !failure;
      if (!goes_on) ready_count = 0;
      for (const Completion& completion : std::span(completions_).first(done)) {
        if (!count(completion, counts)) {
          if (!failure) failure = failure_of(completion);
          continue;
        }
        if (!goes_on || next >= limits.block_count) continue;
        aim(ready_[ready_count++], order.at(next++), completion.user_data);
      }
    }
    if (failure) return *failure;
    counts.system_calls = backend_->system_calls() - calls_before;
    return counts;
  }

 private:
  void aim(ReadRequest& request, const Block& block, std::uint64_t slot) const noexcept {
    request.file = files_[block.file].get();
    request.offset_bytes = block.offset_bytes;
    request.destination = memory_.bytes().subspan(slot * job_.block_bytes, job_.block_bytes);
    request.user_data = slot;
  }

  /// False when it failed.
  bool count(const Completion& completion, ReadCounts& counts) const noexcept {
    if (!completion.bytes_read || *completion.bytes_read != job_.block_bytes) return false;
    counts.add(completion);
    return true;
  }

  /// Of the first `count` requests in `ready_`.
  Result<void> finish_and_compare(std::size_t count) {
    std::size_t submitted = 0;
    std::optional<Failure> failure;
    for (std::size_t finished = 0; finished < count;) {
      submitted += backend_->submit(std::span(ready_).subspan(submitted, count - submitted));
      const std::size_t done = backend_->wait(completions_, 1);
      finished += done;
      for (const Completion& completion : std::span(completions_).first(done)) {
        if (failure) continue;  // The others are still to be collected.
        if (!completion.bytes_read || *completion.bytes_read != job_.block_bytes) {
          failure = failure_of(completion);
          continue;
        }
        const ReadRequest& request = ready_[completion.user_data];
        const auto equal =
            compare_with_pread(request.file->uri(), request.offset_bytes, request.destination);
        if (!equal) failure = equal.error();
      }
    }
    if (failure) return *failure;
    return {};
  }

  const IoJob job_;
  const HostMemory memory_;
  std::vector<ReadRequest> ready_;
  std::vector<Completion> completions_;
  std::vector<std::unique_ptr<File>> files_;
  std::unique_ptr<Backend> backend_;  // Last: gone before what it reads from and into.
};

}  // namespace

Result<std::vector<std::unique_ptr<File>>> open_files_of(const IoJob& job, Backend& backend) {
  std::vector<std::unique_ptr<File>> files;
  for (const IoFile& file : job.files) {
    auto opened = backend.open(file.path);
    if (!opened) return opened.error();
    const std::size_t alignment = (*opened)->alignment_bytes();
    if (job.block_bytes % alignment != 0) {
      return Failure{ErrorCode::kUnsupported,
                     fmt::format("direct reads want multiples of {} bytes here; --block-size {}",
                                 alignment, alignment)};
    }
    files.push_back(*std::move(opened));
  }
  return files;
}

Failure failure_of(const Completion& completion) {
  if (!completion.bytes_read) return completion.bytes_read.error();
  return {ErrorCode::kIo, "a file became shorter while it was read; measure one that stays"};
}

Result<std::unique_ptr<ReadPath>> make_backend_reads(std::unique_ptr<Backend> backend,
                                                     const IoJob& job, bool registered) {
  auto reads = std::make_unique<BackendReads>(std::move(backend), job);
  if (auto done = reads->set_up(registered); !done) return done.error();
  return std::unique_ptr<ReadPath>(std::move(reads));
}

}  // namespace feedrace::diagnose
