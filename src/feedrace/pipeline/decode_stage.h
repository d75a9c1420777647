// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "feedrace/core/bounded_queue.h"
#include "feedrace/decoder.h"
#include "feedrace/format.h"
#include "feedrace/formats/sample_spans.h"
#include "feedrace/loader.h"
#include "feedrace/pipeline/assembly.h"
#include "feedrace/pipeline/device_delivery.h"
#include "feedrace/pipeline/quarantine.h"
#include "feedrace/pipeline/raw_to_device.h"
#include "feedrace/pipeline/read_stage.h"
#include "feedrace/pipeline/single_reader.h"
#include "feedrace/pipeline/stage_clock.h"
#include "feedrace/transform/sample_worker.h"

namespace feedrace::pipeline {

/// What all decode threads of a run share.
struct DecodeShared {
  const formats::Dataset& dataset;
  const formats::SampleSpans* spans;  ///< `dataset`, when further fields are wanted; else null.
  const Pipeline& pipeline;
  std::uint64_t seed = 0;
  decode::DecodeLimits limits;
  OnError on_error = OnError::kRaise;
  Assembly& assembly;
  Quarantine& quarantine;
  SingleReader::Factory make_backend;  ///< For reading the stand-ins of bad samples.
  ReadCounters& read_counters;
  std::uint64_t max_sample_bytes = 0;
  StageClock& clock;
  std::shared_ptr<const cuda::DirectMemory> read_into;  ///< Where cuFile reads; else null.
  storage::FallbackLog& fallbacks;
  const DeviceDelivery* device = nullptr;  ///< Null: all pictures are decoded here.
};

/// One decode thread's work: takes samples from the queue, fills their places. A sample that cannot
/// be read or decoded is data: the policy is applied here, the batch is always filled.
class DecodeThread {
 public:
  explicit DecodeThread(DecodeShared& shared)
      : shared_(shared),
        worker_(shared.pipeline, shared.seed, shared.limits),
        stand_ins_(shared.dataset, shared.make_backend, shared.read_counters,
                   shared.max_sample_bytes) {
    if (shared.read_into)
      to_device_.emplace(shared.read_into, *shared.pipeline.raw, shared.fallbacks);
  }

  /// Returns when the queue ends. Throws only on defects (no memory).
  void run(BoundedQueue<DecodeTask>& queue);

  /// A picture that a device was to decode and could not: decoded here, or bad. `encoded` is the
  /// picture alone; its fields and its label are in place.
  void decode_instead(DecodeTask& task);

  /// Releases a wait for storage; any thread may call.
  void cancel() noexcept { stand_ins_.cancel(); }

  /// The sample in work and for how long, for the time-out's message; any thread may ask.
  std::optional<ReadStage::Waiting> in_work() const;

 private:
  void process(DecodeTask& task);
  void flag(const DecodeTask& task, const std::string& complaint);
  Result<std::int64_t> fill(const DecodeTask& task);
  Result<bool> leave_to_device(const DecodeTask& task, std::span<const std::byte> image);
  Result<std::string> decode(const DecodeTask& task, const order::Pick& pick,
                             std::span<const std::byte> image);
  Result<std::span<const std::byte>> take_fields(const DecodeTask& task, std::uint64_t sample,
                                                 std::span<const std::byte> bytes);
  void handle_bad(DecodeTask& task, Failure failure);
  void name_place(const DecodeTask& task, Failure& failure) const;
  static bool is_refused(const DecodeTask& task);
  bool substitute(DecodeTask& task);
  void blank(DecodeTask& task);

  static constexpr std::uint64_t kIdle = ~std::uint64_t{0};

  DecodeShared& shared_;
  transform::SampleWorker worker_;
  SingleReader stand_ins_;
  std::optional<RawToDevice> to_device_;
  std::atomic<std::uint64_t> sample_ = kIdle;
  std::atomic<Clock::rep> started_ = 0;
};

}  // namespace feedrace::pipeline
