// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/read_threads.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "feedrace/storage/clock.h"
#include "feedrace/storage/failures.h"

namespace feedrace::storage {
namespace {

Completion cancelled(const ReadRequest& request, std::uint64_t start_ns) noexcept {
  return {request.user_data,
          read_failure(name_of(request), request.offset_bytes, request.destination.size(), "read",
                       ECANCELED),
          Path::kPageCache, now_ns() - start_ns};
}

}  // namespace

std::string_view name_of(const ReadRequest& request) noexcept {
  if (request.file != nullptr) return request.file->uri();
  return request.path != nullptr ? request.path : "read request";
}

ReadThreads::ReadThreads(std::string_view name, std::size_t queue_depth, std::size_t thread_count,
                         Read read)
    : queue_depth_(queue_depth), read_(std::move(read)), queued_(queue_depth), ready_(queue_depth) {
  start(name, thread_count == 0 ? std::min(queue_depth, kMaxDefaultThreads) : thread_count);
}

ReadThreads::~ReadThreads() {
  cancel_all();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReadThreads::start(std::string_view name, std::size_t count) {
  threads_.reserve(count);
  try {
    while (threads_.size() < count) threads_.emplace_back([this] { serve(); });
  } catch (const std::exception& error) {
    if (!threads_.empty()) return;  // Fewer threads are slower, not wrong.
    throw Error(ErrorCode::kIo,
                fmt::format("{}: none of {} reader threads could be started ({}); raise the "
                            "limit of processes (ulimit -u, pids.max)",
                            name, count, error.what()));
  }
}

void ReadThreads::serve() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !queued_.empty(); });
    if (queued_.empty()) return;
    const Job job = queued_.pop();
    ++running_;
    lock.unlock();
    Completion completion = read_(job.request, {cancellations_, job.cancellations});
    completion.latency_ns = now_ns() - job.start_ns;
    lock.lock();
    ready_.push(std::move(completion));
    --running_;
    if (ready_.size() >= wanted_) done_.notify_one();
  }
}

std::size_t ReadThreads::submit(std::span<const ReadRequest> requests) noexcept {
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

std::size_t ReadThreads::wait(std::span<Completion> out, std::size_t min_count) noexcept {
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

void ReadThreads::cancel_all() noexcept {
  std::lock_guard lock(mutex_);
  ++cancellations_;
  while (!queued_.empty()) {
    const Job job = queued_.pop();
    ready_.push(cancelled(job.request, job.start_ns));
  }
}

void ReadThreads::interrupt() noexcept {
  {
    std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  done_.notify_one();
}

}  // namespace feedrace::storage
