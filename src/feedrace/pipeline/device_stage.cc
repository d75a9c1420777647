// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/device_stage.h"

#include <utility>

#include <fmt/format.h>

namespace feedrace::pipeline {
namespace {

// Batches that wait for the consumer on the device, so that its next one is there when it asks.
constexpr std::size_t kReadyBatches = 1;

DecodeShared on_host(DecodeShared shared) {
  shared.device = nullptr;
  return shared;
}

}  // namespace

DeviceStage::DeviceStage(Assembly& assembly, DeviceDelivery& delivery, const DecodeShared& decode,
                         StageClock& clock, watch::Tracing tracing)
    : assembly_(assembly),
      delivery_(delivery),
      clock_(clock),
      tracing_(std::move(tracing)),
      host_shared_(on_host(decode)),
      host_(host_shared_) {}

void DeviceStage::run(const std::stop_token& stop) {
  while (true) {
    const auto asked = Clock::now();
    std::shared_ptr<PendingBatch> batch = take_full(stop);
    if (!batch) return;
    const auto start = Clock::now();
    clock_.add_wait(nanoseconds_between(asked, start));
    tracing_.span(watch::TraceKind::kAwaitBatch, asked, start);
    started_ = start.time_since_epoch().count();
    number_ = batch->number;
    const std::uint64_t cpu_before = thread_cpu_ns();
    {
      const watch::Range range = tracing_.range(watch::TraceKind::kDevice);
      if (!process(batch, stop)) return;
    }
    clock_.add_cpu(thread_cpu_ns() - cpu_before);
    number_ = kIdle;
    const auto end = Clock::now();
    clock_.add_busy(nanoseconds_between(start, end));
    tracing_.span(watch::TraceKind::kDevice, start, end, 0, batch->trace_id());
    clock_.add_items(1);
    hand_on(std::move(batch), stop);
  }
}

/// Null at the end. While there is none, what was copied gives its memory on the host back: others
/// may wait for just that.
std::shared_ptr<PendingBatch> DeviceStage::take_full(const std::stop_token& stop) {
  constexpr std::chrono::minutes kAny{1};
  Assembly::Taken taken = assembly_.take(stop, Clock::now());
  if (taken.status == Assembly::TakeStatus::kTimedOut) delivery_.finish();
  while (taken.status == Assembly::TakeStatus::kTimedOut) {
    taken = assembly_.take(stop, Clock::now() + kAny);
  }
  return taken.batch;
}

/// False once `stop` is requested.
bool DeviceStage::process(const std::shared_ptr<PendingBatch>& batch, const std::stop_token& stop) {
  const auto is_fatal = [&] {
    const std::lock_guard lock(batch->mutex);
    return batch->fatal;
  };
  if (is_fatal()) return true;
  std::vector<std::size_t> left;
  auto decoded = delivery_.decode(*batch, left);
  make_instead(batch, left);
  if (is_fatal()) return true;
  return delivery_.upload(batch, std::move(decoded), stop);
}

void DeviceStage::make_instead(const std::shared_ptr<PendingBatch>& batch,
                               const std::vector<std::size_t>& left) {
  const auto places = batch->slot->device_input().places();
  for (const std::size_t index : left) {
    DecodeTask task{batch, index, places[index].pick, nullptr, places[index].picture.encoded, {}};
    host_.make_instead(task);
  }
}

void DeviceStage::hand_on(std::shared_ptr<PendingBatch> batch, const std::stop_token& stop) {
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return ready_.size() < kReadyBatches; })) return;
    ready_.push_back(std::move(batch));
  }
  changed_.notify_all();
}

Assembly::Taken DeviceStage::take(const std::stop_token& stop, Clock::time_point deadline) {
  Assembly::Taken taken;
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, stop, deadline, [&] { return !ready_.empty(); })) {
      taken.status =
          stop.stop_requested() ? Assembly::TakeStatus::kStopped : Assembly::TakeStatus::kTimedOut;
      return taken;
    }
    taken.status = Assembly::TakeStatus::kTaken;
    taken.batch = std::move(ready_.front());
    ready_.pop_front();
  }
  changed_.notify_all();
  return taken;
}

bool DeviceStage::is_starved() const {
  const std::lock_guard lock(mutex_);
  return ready_.empty() && delivery_.is_starving();
}

std::string DeviceStage::describe_work() const {
  const std::uint64_t number = number_;
  if (number == kIdle) return {};
  const Clock::time_point start{Clock::duration(started_.load())};
  return fmt::format("; the GPU's stage works on batch {} for {:.1f} s", number,
                     static_cast<double>(nanoseconds_since(start)) * 1e-9);
}

}  // namespace feedrace::pipeline
