// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/diagnose/device_reads.h"
#include "feedrace/diagnose/device_slots.h"
#include "feedrace/diagnose/read_threads.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/storage/failures.h"

namespace feedrace::diagnose {
namespace {

constexpr std::size_t kAlignmentBytes = 4096;  // Of cuFile's offsets and sizes.

class CuFileReads final : public ReadPath {
 public:
  CuFileReads(const DeviceTarget& target, const IoJob& job)
      : job_(job), slots_(target.device, job, std::min(job.thread_count, job.queue_depth)) {
    feedrace_cuda_direct_options options{};
    options.allow_compatible = 1;  // Counted as what it is.
    options.system_root = target.system_root;
    feedrace_cuda_error error{};
    cuda::require(table().open_direct(slots_.device()->handle(), &options, &direct_, &error),
                  error);
  }
  // Reads are over, files go before their reader, the reader before the memory that it knows.
  ~CuFileReads() override {
    for (feedrace_cuda_file* file : files_) table().close_file(file);
    if (is_registered_) table().unregister_memory(direct_, slots_.memory().address());
    table().close_direct(direct_);
  }
  CuFileReads(const CuFileReads&) = delete;
  CuFileReads& operator=(const CuFileReads&) = delete;

  Result<void> set_up() {
    const cuda::DeviceMemory& memory = slots_.memory();
    feedrace_cuda_error error{};
    cuda::require(table().register_memory(direct_, memory.address(), memory.size_bytes(), &error),
                  error);
    is_registered_ = true;
    for (const IoFile& file : job_.files) {
      host::FileDescriptor fd(open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
      if (!fd) return storage::open_failure(file.path, "open", errno);
      feedrace_cuda_file* opened = nullptr;
      if (const int status = table().open_file(direct_, fd.get(), &opened, &error); status != 0) {
        return named(file, status, error);
      }
      files_.push_back(opened);
      fds_.push_back(std::move(fd));
    }
    return {};
  }

  Result<void> check(const BlockOrder& order, std::uint64_t count) override {
    return caught([&]() -> Result<void> {
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::size_t slot = i % slots_.count();
        if (auto done = read_block(slot, order.at(i)); !done) return done;
        if (auto equal = slots_.compare(slot); !equal) return equal;
      }
      return {};
    });
  }

  Result<ReadCounts> read(const BlockOrder& order, const RunLimits& limits) override {
    return caught([&]() -> Result<ReadCounts> {
      const feedrace_cuda_direct_counts before = counts();
      const auto read = [&](std::size_t thread, const Block& block, ReadCounts&) {
        return read_block(thread, block);
      };
      auto done = read_on_threads(slots_.count(), job_.block_bytes, order, limits, read);
      if (!done) return done;
      add_paths(before, counts(), *done);
      return done;
    });
  }

  Result<void> check_what_is_left() override {
    return caught([&] { return slots_.compare_all(); });
  }

 private:
  const feedrace_cuda_plugin& table() const noexcept { return slots_.device()->table(); }

  static Failure named(const IoFile& file, int status, const feedrace_cuda_error& error) {
    Failure failure = cuda::failure_of(status, error);
    failure.message = fmt::format("{}: {}", printable(file.path), failure.message);
    return failure;
  }

  Result<void> read_block(std::size_t slot, const Block& block) {
    slots_.hold(slot, block);
    feedrace_cuda_error error{};
    std::size_t bytes_read = 0;
    const int status =
        table().read(files_[block.file], slots_.memory().address(), job_.block_bytes,
                     block.offset_bytes, slots_.offset_bytes(slot), &bytes_read, &error);
    if (status != 0) return named(job_.files[block.file], status, error);
    if (bytes_read == job_.block_bytes) return {};
    return Failure{ErrorCode::kIo,
                   "a file became shorter while it was read; measure one that stays"};
  }

  feedrace_cuda_direct_counts counts() const {
    feedrace_cuda_direct_counts counts{};
    feedrace_cuda_error error{};
    cuda::require(table().direct_counts(direct_, &counts, &error), error);
    return counts;
  }

  static void add_paths(const feedrace_cuda_direct_counts& before,
                        const feedrace_cuda_direct_counts& after, ReadCounts& counts) {
    const std::uint64_t compatible = after.compatible_bytes - before.compatible_bytes;
    counts.bytes_by_path[static_cast<std::size_t>(Path::kGds)] +=
        after.direct_bytes - before.direct_bytes;
    counts.bytes_by_path[static_cast<std::size_t>(Path::kGdsCompat)] += compatible;
    counts.copied_bytes += compatible * copies_of(Path::kGdsCompat);
    counts.device_copied_bytes += compatible;
  }

  const IoJob job_;
  DeviceSlots slots_;  // One a thread.
  feedrace_cuda_direct* direct_ = nullptr;
  bool is_registered_ = false;
  std::vector<host::FileDescriptor> fds_;
  std::vector<feedrace_cuda_file*> files_;
};

}  // namespace

Result<std::unique_ptr<ReadPath>> make_cufile_reads(const DeviceTarget& target, const IoJob& job) {
  if (job.block_bytes % kAlignmentBytes != 0) {
    return Failure{ErrorCode::kUnsupported,
                   fmt::format("cuFile wants multiples of {} bytes; --block-size {}",
                               kAlignmentBytes, kAlignmentBytes)};
  }
  return caught([&]() -> Result<std::unique_ptr<ReadPath>> {
    auto reads = std::make_unique<CuFileReads>(target, job);
    if (const auto ready = reads->set_up(); !ready) return ready.error();
    return std::unique_ptr<ReadPath>(std::move(reads));
  });
}

}  // namespace feedrace::diagnose
