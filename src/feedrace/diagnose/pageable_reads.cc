// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/diagnose/device_reads.h"
#include "feedrace/diagnose/device_slots.h"
#include "feedrace/diagnose/read_threads.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/storage/failures.h"

namespace feedrace::diagnose {
namespace {

/// What a thread reads into and copies from.
struct Lane {
  Lane(const std::shared_ptr<cuda::Device>& device, std::size_t bytes)
      : memory(bytes), copied(device), stream(device) {
    memory.touch();
  }

  HostMemory memory;
  cuda::Event copied;
  cuda::Stream stream;  // Last: nothing is copied out of `memory` behind its end.
};

class PageableReads final : public ReadPath {
 public:
  PageableReads(const std::shared_ptr<cuda::Device>& device, const IoJob& job)
      : job_(job), slots_(device, job, std::min(job.thread_count, job.queue_depth)) {
    for (std::size_t i = 0; i < slots_.count(); ++i) {
      lanes_.push_back(std::make_unique<Lane>(device, job.block_bytes));
    }
  }

  Result<void> open_files() {
    for (const IoFile& file : job_.files) {
      host::FileDescriptor fd(open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!fd) return storage::open_failure(file.path, "open", errno);
      fds_.push_back(std::move(fd));
    }
    return {};
  }

  Result<void> check(const BlockOrder& order, std::uint64_t count) override {
    return caught([&]() -> Result<void> {
      ReadCounts counts;
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::size_t lane = i % lanes_.size();
        if (auto done = read_block(lane, order.at(i), counts); !done) return done;
        if (auto equal = slots_.compare(lane); !equal) return equal;
      }
      return {};
    });
  }

  Result<ReadCounts> read(const BlockOrder& order, const RunLimits& limits) override {
    const auto read = [&](std::size_t thread, const Block& block, ReadCounts& counts) {
      return read_block(thread, block, counts);
    };
    return read_on_threads(lanes_.size(), job_.block_bytes, order, limits, read);
  }

  Result<void> check_what_is_left() override {
    return caught([&] { return slots_.compare_all(); });
  }

 private:
  Result<void> read_block(std::size_t lane, const Block& block, ReadCounts& counts) {
    Lane& own = *lanes_[lane];
    for (std::size_t done = 0; done < job_.block_bytes;) {
      const ssize_t count =
          pread(fds_[block.file].get(), own.memory.data() + done, job_.block_bytes - done,
                static_cast<off_t>(block.offset_bytes + done));
      ++counts.system_calls;
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        return storage::read_failure(job_.files[block.file].path, block.offset_bytes,
                                     job_.block_bytes, "pread", count < 0 ? errno : EIO);
      }
      counts.copied_bytes += static_cast<std::size_t>(count);  // By the kernel, out of its pages.
      done += static_cast<std::size_t>(count);
    }
    slots_.hold(lane, block);
    own.stream.copy_to_device(slots_.address(lane), own.memory.data(), job_.block_bytes);
    own.copied.record(own.stream.handle());
    own.copied.wait();
    counts.copied_bytes += job_.block_bytes;  // By the driver, into pinned memory of its own.
    counts.device_copied_bytes += job_.block_bytes;
    return {};
  }

  const IoJob job_;
  DeviceSlots slots_;  // One a lane.
  std::vector<host::FileDescriptor> fds_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace

Result<std::unique_ptr<ReadPath>> make_pageable_reads(const DeviceTarget& target,
                                                      const IoJob& job) {
  return caught([&]() -> Result<std::unique_ptr<ReadPath>> {
    auto reads = std::make_unique<PageableReads>(target.device, job);
    if (const auto opened = reads->open_files(); !opened) return opened.error();
    return std::unique_ptr<ReadPath>(std::move(reads));
  });
}

}  // namespace feedrace::diagnose
