// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/thread_backend.h"

#include <algorithm>
#include <cerrno>
#include <exception>

#include <fmt/format.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/storage/clock.h"
#include "feedrace/storage/failures.h"
#include "feedrace/storage/posix_file.h"

namespace feedrace::storage {
namespace {

Completion cancelled(const ReadRequest& request, std::uint64_t start_ns) noexcept {
  const Result<Target> target = target_of(request);
  const std::string_view name = target ? target->name : std::string_view("read request");
  return {
      request.user_data,
      read_failure(name, request.offset_bytes, request.destination.size(), "preadv2", ECANCELED),
      Path::kPageCache, now_ns() - start_ns};
}

}  // namespace

ThreadBackend::ThreadBackend(std::size_t queue_depth, std::size_t thread_count,
                             AccessOptions access)
    : queue_depth_(queue_depth),
      table_(std::move(access)),
      queued_(queue_depth),
      ready_(queue_depth) {
  start_threads(thread_count == 0 ? std::min(queue_depth, kMaxDefaultThreads) : thread_count);
}

ThreadBackend::~ThreadBackend() {
  cancel_all();
  stop_threads();
}

void ThreadBackend::start_threads(std::size_t count) {
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

void ThreadBackend::stop_threads() noexcept {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadBackend::serve() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !queued_.empty(); });
    if (queued_.empty()) return;
    const Job job = queued_.pop();
    ++running_;
    lock.unlock();
    Completion completion = read(job);
    completion.latency_ns = now_ns() - job.start_ns;
    lock.lock();
    ready_.push(std::move(completion));
    --running_;
    if (ready_.size() >= wanted_) done_.notify_one();
  }
}

Completion ThreadBackend::read(const Job& job) noexcept {
  const ReadRequest& request = job.request;
  Completion done{request.user_data, std::size_t{0}, Path::kPageCache, 0};
  const Result<Target> target = target_of(request);
  if (!target) {
    done.bytes_read = target.error();
    return done;
  }
  OpenFile own;
  if (target->file == nullptr) {
    own = open_whole(request.path, request.destination, table_);
    if (!own.cached && !own.direct) {
      done.bytes_read = open_failure(target->name, "openat", errno);
      return done;
    }
  }
  const OpenFile& open = target->file == nullptr ? own : target->file->open();
  const RangeRead got = read_range(open, target->name, request.offset_bytes, request.destination,
                                   {cancellations_, job.cancellations});
  // Opening and closing a whole file are two more.
  system_calls_ += got.call_count + (target->file == nullptr ? 2 : 0);
  done.path = got.path;
  done.bytes_read = got.bytes;
  if (got.refused) {
    done.bytes_read = *got.refused;
  } else if (got.error_number != 0) {
    done.bytes_read = read_failure(target->name, request.offset_bytes, request.destination.size(),
                                   "preadv2", got.error_number);
  }
  return done;
}

Backend::Limits ThreadBackend::limits() const noexcept {
  return {whole_file_alignment(table_.wanted()), queue_depth_};
}

Result<void> ThreadBackend::register_memory(std::span<std::byte> memory) {
  // Each call names its memory, so there is nothing to pin; but direct reads want it touched.
  if (table_.wanted() == Access::kDirect) populate(memory);
  return {};
}

Result<std::unique_ptr<File>> ThreadBackend::open(std::string_view uri) {
  auto opened = open_posix(uri, table_);
  if (!opened) return opened.error();
  return std::unique_ptr<File>(*std::move(opened));
}

std::size_t ThreadBackend::submit(std::span<const ReadRequest> requests) noexcept {
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

std::size_t ThreadBackend::wait(std::span<Completion> out, std::size_t min_count) noexcept {
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

void ThreadBackend::cancel_all() noexcept {
  std::lock_guard lock(mutex_);
  ++cancellations_;
  while (!queued_.empty()) {
    const Job job = queued_.pop();
    ready_.push(cancelled(job.request, job.start_ns));
  }
}

void ThreadBackend::interrupt() noexcept {
  {
    std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  done_.notify_one();
}

}  // namespace feedrace::storage
