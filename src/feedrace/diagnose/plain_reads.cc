// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/plain_reads.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/diagnose/read_threads.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/storage/failures.h"

namespace feedrace::diagnose {
namespace {

/// The first whole blocks of a file, mapped.
class Mapping {
 public:
  Mapping(const void* start, std::size_t size_bytes) : start_(start), size_bytes_(size_bytes) {}
  Mapping(Mapping&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)), size_bytes_(other.size_bytes_) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (start_ != nullptr) munmap(const_cast<void*>(start_), size_bytes_);
  }
  const std::byte* at(std::uint64_t offset_bytes) const noexcept {
    return static_cast<const std::byte*>(start_) + offset_bytes;
  }

 private:
  const void* start_;
  std::size_t size_bytes_;
};

/// Reads one block after the other into `destination`; a thread has its own.
class PlainReader {
 public:
  virtual ~PlainReader() = default;
  /// Adds its copies and system calls to `counts`.
  virtual Result<void> read(const Block& block, std::span<std::byte> destination,
                            ReadCounts& counts) noexcept = 0;
};

class CopyingReader final : public PlainReader {
 public:
  CopyingReader(const IoJob& job, const std::vector<host::FileDescriptor>& fds)
      : job_(job), fds_(fds), bounce_(job.block_bytes) {
    bounce_.touch();
  }
  Result<void> read(const Block& block, std::span<std::byte> destination,
                    ReadCounts& counts) noexcept override {
    for (std::size_t done = 0; done < destination.size();) {
      const ssize_t count =
          pread(fds_[block.file].get(), bounce_.data() + done, destination.size() - done,
                static_cast<off_t>(block.offset_bytes + done));
      ++counts.system_calls;
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        return storage::read_failure(job_.files[block.file].path, block.offset_bytes,
                                     destination.size(), "pread", count < 0 ? errno : EIO);
      }
      counts.copied_bytes += static_cast<std::size_t>(count);  // By the kernel, out of its pages.
      done += static_cast<std::size_t>(count);
    }
    std::memcpy(destination.data(), bounce_.data(), destination.size());
    counts.copied_bytes += destination.size();
    return {};
  }

 private:
  const IoJob& job_;
  const std::vector<host::FileDescriptor>& fds_;
  HostMemory bounce_;
};

class MappedReader final : public PlainReader {
 public:
  explicit MappedReader(const std::vector<Mapping>& mappings) : mappings_(mappings) {}
  Result<void> read(const Block& block, std::span<std::byte> destination,
                    ReadCounts& counts) noexcept override {
    std::memcpy(destination.data(), mappings_[block.file].at(block.offset_bytes),
                destination.size());
    counts.copied_bytes += destination.size();
    return {};
  }

 private:
  const std::vector<Mapping>& mappings_;
};

class PlainReads final : public ReadPath {
 public:
  PlainReads(PlainRead how, IoJob job)
      : how_(how),
        job_(std::move(job)),
        thread_count_(std::min(job_.thread_count, job_.queue_depth)),
        memory_(job_.queue_depth * job_.block_bytes) {
    memory_.touch();
  }

  Result<void> open_files() {
    for (const IoFile& file : job_.files) {
      host::FileDescriptor fd(open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!fd) return storage::open_failure(file.path, "open", errno);
      if (how_ == PlainRead::kMapped) {
        const std::size_t size_bytes = file.block_count * job_.block_bytes;
        const void* start = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
        if (start == MAP_FAILED) return storage::open_failure(file.path, "mmap", errno);
        mappings_.emplace_back(start, size_bytes);
      }
      fds_.push_back(std::move(fd));
    }
    for (std::size_t i = 0; i < thread_count_; ++i) readers_.push_back(make_reader());
    return {};
  }

  Result<void> check(const BlockOrder& order, std::uint64_t count) override {
    ReadCounts counts;
    const std::span<std::byte> destination = memory_.bytes().first(job_.block_bytes);
    for (std::uint64_t i = 0; i < count; ++i) {
      const Block block = order.at(i);
      if (const auto done = readers_[0]->read(block, destination, counts); !done) return done;
      const auto equal =
          compare_with_pread(job_.files[block.file].path, block.offset_bytes, destination);
      if (!equal) return equal;
    }
    return {};
  }

  Result<ReadCounts> read(const BlockOrder& order, const RunLimits& limits) override {
    const std::size_t slots = job_.queue_depth / thread_count_;  // Of each thread.
    std::vector<std::size_t> next(thread_count_);
    const auto read_block = [&](std::size_t thread, const Block& block, ReadCounts& counts) {
      const std::size_t slot = thread * slots + next[thread]++ % slots;
      return readers_[thread]->read(
          block, memory_.bytes().subspan(slot * job_.block_bytes, job_.block_bytes), counts);
    };
    return read_on_threads(thread_count_, job_.block_bytes, order, limits, read_block);
  }

 private:
  std::unique_ptr<PlainReader> make_reader() const {
    if (how_ == PlainRead::kMapped) return std::make_unique<MappedReader>(mappings_);
    return std::make_unique<CopyingReader>(job_, fds_);
  }

  const PlainRead how_;
  const IoJob job_;
  const std::size_t thread_count_;
  const HostMemory memory_;
  std::vector<host::FileDescriptor> fds_;
  std::vector<Mapping> mappings_;
  std::vector<std::unique_ptr<PlainReader>> readers_;
};

}  // namespace

Result<std::unique_ptr<ReadPath>> make_plain_reads(PlainRead how, const IoJob& job) {
  auto reads = std::make_unique<PlainReads>(how, job);
  if (const auto opened = reads->open_files(); !opened) return opened.error();
  return std::unique_ptr<ReadPath>(std::move(reads));
}

}  // namespace feedrace::diagnose
