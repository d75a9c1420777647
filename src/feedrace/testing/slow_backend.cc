// SPDX-License-Identifier: Apache-2.0
#include "feedrace/testing/slow_backend.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "feedrace/random.h"
#include "feedrace/storage/clock.h"

namespace feedrace::testing {

SlowBackend::SlowBackend(std::unique_ptr<storage::Backend> inner, const Latency& latency)
    : inner_(std::move(inner)), latency_(latency) {
  const std::size_t depth = inner_->limits().max_in_flight;
  slots_.resize(depth);
  collected_.resize(depth);
  held_.reserve(depth);
  for (std::size_t i = depth; i > 0; --i) free_.push_back(i - 1);
}

Result<void> SlowBackend::register_memory(std::span<std::byte> memory) {
  return inner_->register_memory(memory);
}

Result<std::unique_ptr<storage::File>> SlowBackend::open(std::string_view uri) {
  return inner_->open(uri);
}

std::size_t SlowBackend::submit(std::span<const storage::ReadRequest> requests) noexcept {
  std::size_t taken = 0;
  const std::uint64_t now = storage::now_ns();  // The same for all: the seed alone is their order.
  for (storage::ReadRequest request : requests) {
    if (free_.empty()) break;
    const std::size_t index = free_.back();
    const std::uint64_t user_data = std::exchange(request.user_data, index);
    if (inner_->submit({&request, 1}) == 0) break;
    free_.pop_back();
    SampleRandom random(latency_.seed, 0, submitted_++, 0);
    const std::uint64_t wait_ns =
        latency_.min_ns + random.below(latency_.max_ns - latency_.min_ns + 1);
    slots_[index] = {user_data, now, now + wait_ns, {}};
    ++inside_;
    ++taken;
  }
  return taken;
}

/// Takes what the inner back end has done.
void SlowBackend::collect(std::size_t min_count) noexcept {
  if (inside_ == 0) return;
  const std::size_t count = inner_->wait(collected_, min_count);
  inside_ -= count;
  for (std::size_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(collected_[i].user_data);
    slots_[index].completion = std::move(collected_[i]);
    held_.push_back(index);
  }
  std::sort(held_.begin(), held_.end(),
            [this](std::size_t a, std::size_t b) { return slots_[a].due_ns < slots_[b].due_ns; });
}

std::size_t SlowBackend::due_count(std::uint64_t now) const noexcept {
  return static_cast<std::size_t>(std::count_if(
      held_.begin(), held_.end(), [&](std::size_t index) { return slots_[index].due_ns <= now; }));
}

std::size_t SlowBackend::wait(std::span<storage::Completion> out, std::size_t min_count) noexcept {
  const std::size_t wanted = std::min({min_count, out.size(), slots_.size() - free_.size()});
  collect(0);
  while (due_count(storage::now_ns()) < wanted && !interrupted()) {
    if (inside_ > 0) {
      collect(1);
    } else {
      sleep_until_due();
    }
  }
  {
    std::lock_guard lock(mutex_);
    interrupted_ = false;
  }
  const std::uint64_t now = storage::now_ns();
  const std::size_t count = std::min(out.size(), due_count(now));
  for (std::size_t i = 0; i < count; ++i) {
    Held& held = slots_[held_[i]];
    out[i] = std::move(held.completion);
    out[i].user_data = held.user_data;
    out[i].latency_ns = now - held.start_ns;
    free_.push_back(held_[i]);
  }
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

bool SlowBackend::interrupted() noexcept {
  std::lock_guard lock(mutex_);
  return interrupted_;
}

/// Until the first held read that is not due yet.
void SlowBackend::sleep_until_due() noexcept {
  const std::uint64_t now = storage::now_ns();
  const std::size_t due = due_count(now);
  if (due == held_.size()) return;
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, std::chrono::nanoseconds(slots_[held_[due]].due_ns - now),
                  [this] { return interrupted_; });
}

void SlowBackend::cancel_all() noexcept {
  inner_->cancel_all();
  for (Held& held : slots_) held.due_ns = 0;
}

void SlowBackend::interrupt() noexcept {
  {
    std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  woken_.notify_one();
  inner_->interrupt();
}

}  // namespace feedrace::testing
