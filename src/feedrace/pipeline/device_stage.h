// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "feedrace/pipeline/assembly.h"
#include "feedrace/pipeline/decode_stage.h"
#include "feedrace/pipeline/device_delivery.h"
#include "feedrace/pipeline/stage_clock.h"
#include "feedrace/watch/trace.h"

namespace feedrace::pipeline {

/// Between the assembly and the consumer: a thread that takes full batches in order, has their
/// pictures decoded on the device, or brought there as pixels, and begins to bring the rest there.
/// nvJPEG works on the CPU for a part of it, so this is not the consumer's to wait for.
class DeviceStage {
 public:
  /// All of it outlives the stage. `decode` is what decode threads share.
  DeviceStage(Assembly& assembly, DeviceDelivery& delivery, const DecodeShared& decode,
              StageClock& clock, watch::Tracing tracing = {});

  /// The thread. Returns once `stop` is requested. Throws Error when the device is lost.
  void run(const std::stop_token& stop);
  /// As `Assembly::take`; what it gives is on its way to the device, unless it is fatal.
  Assembly::Taken take(const std::stop_token& stop, Clock::time_point deadline);

  /// True when the consumer holds all that there is room for on the device.
  bool is_starved() const;
  /// Releases a wait for storage; any thread may call.
  void cancel() noexcept { host_.cancel(); }
  /// "; the GPU's stage works on batch 17 for 12.0 s", or nothing.
  std::string describe_work() const;

 private:
  std::shared_ptr<PendingBatch> take_full(const std::stop_token& stop);
  bool process(const std::shared_ptr<PendingBatch>& batch, const std::stop_token& stop);
  void make_instead(const std::shared_ptr<PendingBatch>& batch,
                    const std::vector<std::size_t>& left);
  void hand_on(std::shared_ptr<PendingBatch> batch, const std::stop_token& stop);

  static constexpr std::uint64_t kIdle = ~std::uint64_t{0};

  Assembly& assembly_;
  DeviceDelivery& delivery_;
  StageClock& clock_;
  const watch::Tracing tracing_;
  DecodeShared host_shared_;  // Of `host_`, which decodes what the device can't.
  DecodeThread host_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<PendingBatch>> ready_;  // Guarded by mutex_.
  std::atomic<std::uint64_t> number_ = kIdle;        // Of the batch in work.
  std::atomic<Clock::rep> started_ = 0;
};

}  // namespace feedrace::pipeline
