// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/buffered_backend.h"

#include <algorithm>
#include <cerrno>
#include <exception>

#include <fmt/format.h>

#include "feedrace/storage/clock.h"
#include "feedrace/storage/failures.h"
#include "feedrace/storage/posix_file.h"

namespace feedrace::storage {
namespace {

Result<std::size_t> read_target(const ReadRequest& request, const StopSign& stop) noexcept {
  const Result<Target> target = target_of(request);
  if (!target) return target.error();
  FileDescriptor own;
  if (target->file == nullptr) {
    own = open_whole(request.path);
    if (!own) return open_failure(target->name, "openat", errno);
  }
  const int fd = own ? own.get() : target->file->fd();
  const RangeRead read = read_range(fd, request.offset_bytes, request.destination, stop);
  if (read.error_number == 0) return read.bytes;
  return read_failure(target->name, request.offset_bytes, request.destination.size(), "preadv2",
                      read.error_number);
}

Completion cancelled(const ReadRequest& request, std::uint64_t start_ns) noexcept {
  const Result<Target> target = target_of(request);
  const std::string_view name = target ? target->name : std::string_view("read request");
  return {
      request.user_data,
      read_failure(name, request.offset_bytes, request.destination.size(), "preadv2", ECANCELED),
      Path::kPageCache, now_ns() - start_ns};
}

}  // namespace

BufferedBackend::BufferedBackend(std::size_t queue_depth, std::size_t thread_count)
    : queue_depth_(queue_depth), queued_(queue_depth), ready_(queue_depth) {
  start_threads(thread_count == 0 ? std::min(queue_depth, kMaxDefaultThreads) : thread_count);
}

BufferedBackend::~BufferedBackend() {
  cancel_all();
  stop_threads();
}

void BufferedBackend::start_threads(std::size_t count) {
  threads_.reserve(count);
  try {
    while (threads_.size() < count) threads_.emplace_back([this] { serve(); });
  } catch (const std::exception& error) {
    if (!threads_.empty()) return;  // Fewer threads are slower, not wrong.
    throw Error(ErrorCode::kIo,
                fmt::format("buffered: none of {} reader threads could be started ({}); raise the "
                            "limit of processes (ulimit -u, pids.max)",
                            count, error.what()));
  }
}

void BufferedBackend::stop_threads() noexcept {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BufferedBackend::serve() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !queued_.empty(); });
    if (queued_.empty()) return;
    const Job job = queued_.pop();
    ++running_;
    lock.unlock();
    Completion completion{job.request.user_data,
                          read_target(job.request, {cancellations_, job.cancellations}),
                          Path::kPageCache, 0};
    completion.latency_ns = now_ns() - job.start_ns;
    lock.lock();
    ready_.push(std::move(completion));
    --running_;
    if (ready_.size() >= wanted_) done_.notify_one();
  }
}

Result<void> BufferedBackend::register_memory(std::span<std::byte> /*memory*/) {
  return {};  // The kernel copies out of the page cache: there is nothing to pin.
}

Result<std::unique_ptr<File>> BufferedBackend::open(std::string_view uri) {
  return open_posix(uri);
}

std::size_t BufferedBackend::submit(std::span<const ReadRequest> requests) noexcept {
  std::size_t taken = 0;
  {
    std::lock_guard lock(mutex_);
    const std::size_t in_flight = queued_.size() + running_ + ready_.size();
    taken = std::min(requests.size(), queue_depth_ - in_flight);
    const std::uint64_t start_ns = now_ns();
    for (const ReadRequest& request : requests.first(taken))
      queued_.push({request, start_ns, cancellations_});
  }
  if (taken == 1) {
    work_.notify_one();
  } else if (taken > 1) {
    work_.notify_all();
  }
  return taken;
}

std::size_t BufferedBackend::wait(std::span<Completion> out, std::size_t min_count) noexcept {
  std::unique_lock lock(mutex_);
  const std::size_t in_flight = queued_.size() + running_ + ready_.size();
  wanted_ = std::min({min_count, out.size(), in_flight});
  done_.wait(lock, [this] { return ready_.size() >= wanted_ || interrupted_; });
  interrupted_ = false;
  wanted_ = kNobodyWaits;
  const std::size_t count = std::min(out.size(), ready_.size());
  for (Completion& completion : out.first(count)) completion = ready_.pop();
  return count;
}

void BufferedBackend::cancel_all() noexcept {
  std::lock_guard lock(mutex_);
  ++cancellations_;
  while (!queued_.empty()) {
    const Job job = queued_.pop();
    ready_.push(cancelled(job.request, job.start_ns));
  }
}

void BufferedBackend::interrupt() noexcept {
  {
    std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  done_.notify_one();
}

}  // namespace feedrace::storage
