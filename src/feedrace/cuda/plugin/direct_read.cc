// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/direct_read.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include <fmt/format.h>

#include "feedrace/cuda/plugin/direct.h"
#include "feedrace/cuda/plugin/direct_errors.h"

namespace feedrace::cuda_plugin {
namespace {

constexpr ssize_t kNotYet = std::numeric_limits<ssize_t>::min();

ssize_t bytes_read_of(feedrace_cuda_pending_read& pending) noexcept {
  return std::atomic_ref(pending.bytes_read).load(std::memory_order_acquire);
}

void count(DirectSession& session, DirectPath path, std::uint64_t bytes) {
  switch (path) {
    case DirectPath::kNvidiaFs:
    case DirectPath::kP2pdma:
      session.direct_bytes += bytes;
      return;
    case DirectPath::kCompatible:
      session.compatible_bytes += bytes;
      return;
    case DirectPath::kUnknown:
      session.unknown_bytes += bytes;
  }
}

std::string text_of(const feedrace_cuda_file& file, const Extent& extent) {
  return fmt::format("cuFileRead of {} bytes at {} of {}", extent.bytes, extent.file_offset,
                     file.name);
}

int read(feedrace_cuda_file* file, std::uint64_t base, std::size_t bytes, std::uint64_t file_offset,
         std::uint64_t memory_offset, std::size_t* bytes_read, feedrace_cuda_error* error) {
  return guarded(error, [&] {
    const InSession in(*file->session);
    const Extent extent{base, bytes, file_offset, memory_offset};
    check_extent(*file, extent);
    *bytes_read = finish_extent(*file, extent, 0);
  });
}

void forget(feedrace_cuda_pending_read* pending) {
  const std::lock_guard lock(pending->file->mutex);
  pending->file->pending.erase(pending);
}

int read_async(feedrace_cuda_file* file, std::uint64_t base, std::size_t bytes,
               std::uint64_t file_offset, std::uint64_t memory_offset, feedrace_cuda_stream stream,
               feedrace_cuda_pending_read** out, feedrace_cuda_error* error) {
  return guarded(error, [&] {
    DirectSession& session = *file->session;
    const InSession in(session);
    check_extent(*file, {base, bytes, file_offset, memory_offset});
    if (session.cufile.cuFileReadAsync == nullptr) {
      throw Refusal(FEEDRACE_CUDA_UNSUPPORTED,
                    fmt::format("{} has no cuFileReadAsync; use read, or install cuFile 1.15 or "
                                "newer",
                                session.cufile.library.path()));
    }
    auto pending = std::make_unique<feedrace_cuda_pending_read>(feedrace_cuda_pending_read{
        file, stream_of(stream), base, bytes, static_cast<off_t>(file_offset),
        static_cast<off_t>(memory_offset), kNotYet});
    {
      const std::lock_guard lock(file->mutex);
      file->pending.insert(pending.get());
    }
    const CUfileError_t came = session.cufile.cuFileReadAsync(
        file->handle, reinterpret_cast<void*>(base), &pending->size, &pending->file_offset,
        &pending->memory_offset, &pending->bytes_read, pending->stream);
    if (came.err != CU_FILE_SUCCESS) {
      forget(pending.get());
      throw cufile_refusal(
          session.primary.driver, came,
          fmt::format("cuFileReadAsync of {} bytes at {} of {}", bytes, file_offset, file->name));
    }
    *out = pending.release();
  });
}

int finish_read(feedrace_cuda_pending_read* pending, std::size_t* bytes_read,
                feedrace_cuda_error* error) {
  return guarded(error, [&] {
    const ssize_t came = bytes_read_of(*pending);
    feedrace_cuda_file& file = *pending->file;
    const Extent extent{pending->base, pending->size,
                        static_cast<std::uint64_t>(pending->file_offset),
                        static_cast<std::uint64_t>(pending->memory_offset)};
    if (came == kNotYet) {
      throw Refusal(
          FEEDRACE_CUDA_INVALID,
          text_of(file, extent) + " has not come yet; wait for an event behind it on its stream");
    }
    forget(pending);
    const std::unique_ptr<feedrace_cuda_pending_read> gone(pending);
    const InSession in(*file.session);
    if (came < 0) {
      // Where it is -1 the error number was another thread's.
      throw read_refusal(file.session->primary.driver, came, EIO, text_of(file, extent));
    }
    *bytes_read = finish_extent(file, extent, static_cast<std::uint64_t>(came));
  });
}

}  // namespace

void check_extent(const feedrace_cuda_file& file, const Extent& extent) {
  if (extent.bytes % kBlockBytes != 0 || extent.file_offset % kBlockBytes != 0 ||
      extent.memory_offset % kBlockBytes != 0) {
    throw Refusal(FEEDRACE_CUDA_INVALID,
                  fmt::format("{} to {} behind the memory's begin: not in multiples of 4096, so it "
                              "would be copied on its way; read the whole blocks around it",
                              text_of(file, extent), extent.memory_offset));
  }
  if (extent.file_offset >
      static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) - extent.bytes) {
    throw Refusal(FEEDRACE_CUDA_INVALID,
                  text_of(file, extent) + ": no file is that long; check the offset");
  }
  DirectSession& session = *file.session;
  const std::lock_guard lock(session.mutex);
  const auto found = session.registered_bytes.find(extent.base);
  if (found == session.registered_bytes.end()) {
    throw Refusal(FEEDRACE_CUDA_INVALID,
                  fmt::format("{}: no memory was registered at {:#x}; give the address that was, "
                              "and the place in it as memory_offset",
                              text_of(file, extent), extent.base));
  }
  if (extent.memory_offset > found->second || extent.bytes > found->second - extent.memory_offset) {
    throw Refusal(FEEDRACE_CUDA_INVALID,
                  fmt::format("{} to {} behind the memory's begin: only {} bytes are registered; "
                              "lower the size",
                              text_of(file, extent), extent.memory_offset, found->second));
  }
}

std::uint64_t expected_bytes(const feedrace_cuda_file& file, const Extent& extent) {
  const std::uint64_t size = size_bytes_of(file.descriptor, file.name);
  return size <= extent.file_offset ? 0 : std::min(extent.bytes, size - extent.file_offset);
}

std::uint64_t finish_extent(feedrace_cuda_file& file, const Extent& extent, std::uint64_t come) {
  DirectSession& session = *file.session;
  const auto together = session.lease->reads().together();
  std::uint64_t done = std::min(come, extent.bytes);
  std::uint64_t expected = 0;
  // The size is asked anew each time: files shrink, and grow, while they are read.
  while (done < (expected = expected_bytes(file, extent))) {
    // From the last whole block on, or all that follows would be unaligned, and copied.
    const std::uint64_t from = done / kBlockBytes * kBlockBytes;
    errno = 0;
    const ssize_t came = session.cufile.cuFileRead(
        file.handle, reinterpret_cast<void*>(extent.base), extent.bytes - from,
        static_cast<off_t>(extent.file_offset + from),
        static_cast<off_t>(extent.memory_offset + from));
    if (came < 0) {
      throw read_refusal(session.primary.driver, came, errno, text_of(file, extent));
    }
    const std::uint64_t reached = std::min(from + static_cast<std::uint64_t>(came), extent.bytes);
    if (reached <= done && reached < expected_bytes(file, extent)) {
      throw Refusal(
          FEEDRACE_CUDA_IO,
          fmt::format("{}: no more than {} of {} bytes came, without an error; check that "
                      "the GPU works (nvidia-smi), and CUFILE_LOGGING_LEVEL=TRACE",
                      text_of(file, extent), done, expected));
    }
    done = std::max(done, reached);
  }
  const std::uint64_t bytes = std::min(done, expected);
  ++session.reads;
  count(session, file.path, bytes);
  return bytes;
}

void wait_for_pending(feedrace_cuda_file& file) noexcept {
  const Driver& driver = file.session->primary.driver;
  const std::lock_guard lock(file.mutex);
  for (feedrace_cuda_pending_read* pending : file.pending) {
    // A stream that was destroyed has waited for its reads: only what has not come may be asked.
    if (bytes_read_of(*pending) == kNotYet) driver.cuStreamSynchronize(pending->stream);
  }
}

void free_pending(feedrace_cuda_file& file) noexcept {
  const std::lock_guard lock(file.mutex);
  for (feedrace_cuda_pending_read* pending : file.pending) {
    // What never comes, because the device was lost, may still be written to.
    if (bytes_read_of(*pending) != kNotYet) delete pending;
  }
  file.pending.clear();
}

void add_direct_reads(feedrace_cuda_plugin& table) {
  table.read = read;
  table.read_async = read_async;
  table.finish_read = finish_read;
  add_direct_batches(table);
}

}  // namespace feedrace::cuda_plugin
