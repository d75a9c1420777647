// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "feedrace/core/bounded_queue.h"
#include "feedrace/decoder.h"
#include "feedrace/format.h"
#include "feedrace/formats/sample_spans.h"
#include "feedrace/loader.h"
#include "feedrace/pipeline/assembly.h"
#include "feedrace/pipeline/crop_counters.h"
#include "feedrace/pipeline/device_delivery.h"
#include "feedrace/pipeline/direct_copies.h"
#include "feedrace/pipeline/jpeg_counters.h"
#include "feedrace/pipeline/quarantine.h"
#include "feedrace/pipeline/raw_to_device.h"
#include "feedrace/pipeline/read_stage.h"
#include "feedrace/pipeline/single_reader.h"
#include "feedrace/pipeline/stage_clock.h"
#include "feedrace/transform/sample_worker.h"
#include "feedrace/watch/trace.h"

namespace feedrace::pipeline {

/// What all decode threads of a run share.
struct DecodeShared {
  const formats::Dataset& dataset;
  const formats::SampleSpans* spans;  ///< `dataset`, when further fields are wanted; else null.
  const Pipeline& pipeline;
  std::uint64_t seed = 0;
  decode::DecodeLimits limits;
  decode::JpegEngine jpeg_engine = decode::JpegEngine::kFeedrace;
  OnError on_error = OnError::kRaise;
  Assembly& assembly;
  Quarantine& quarantine;
  SingleReader::Factory make_backend;  ///< For reading the stand-ins of bad samples.
  ReadCounters& read_counters;
  std::uint64_t max_sample_bytes = 0;
  StageClock& clock;
  JpegCounters& jpeg_counters;
  std::shared_ptr<const cuda::DirectMemory> read_into;  ///< Where cuFile reads; else null.
  storage::FallbackLog& fallbacks;
  CropCounters* crops = nullptr;           ///< Null: crop indexes are not used.
  const DeviceDelivery* device = nullptr;  ///< Null: all pictures are decoded here.
};

/// One decode thread's work: takes samples from the queue, fills their places. A sample that cannot
/// be read or decoded is data: the policy is applied here, the batch is always filled.
class DecodeThread {
 public:
  explicit DecodeThread(DecodeShared& shared, watch::Tracing tracing = {})
      : shared_(shared),
        tracing_(std::move(tracing)),
        worker_(shared.pipeline, shared.seed, shared.limits, shared.jpeg_engine),
        stand_ins_(shared.dataset, shared.make_backend, shared.read_counters,
                   shared.max_sample_bytes) {
    if (!shared.read_into) return;
    if (shared.pipeline.raw) {
      to_device_.emplace(shared.read_into, *shared.pipeline.raw, shared.fallbacks);
    } else {
      copies_.emplace(shared.read_into, shared.fallbacks);
    }
  }

  /// Returns when the queue ends. Throws only on defects (no memory).
  void run(BoundedQueue<DecodeTask>& queue);

  /// A picture that was to come to a device and did not: made here, or bad. `encoded` is the
  /// picture alone, or empty where its pixels are there; its fields and its label are in place.
  void make_instead(DecodeTask& task);

  /// Releases a wait for storage; any thread may call.
  void cancel() noexcept { stand_ins_.cancel(); }

  /// The sample in work and for how long, for the time-out's message; any thread may ask.
  std::optional<ReadStage::Waiting> in_work() const;

 private:
  void process(DecodeTask& task);
  void flag(const DecodeTask& task, const std::string& complaint);
  Result<std::int64_t> fill(const DecodeTask& task);
  Result<bool> leave_to_device(const DecodeTask& task, std::span<const std::byte> image);
  Result<bool> leave_on_device(const DecodeTask& task, std::span<const std::byte> image);
  Result<bool> leave_pixels(const DecodeTask& task, const cuda::Picture& picture,
                            const transform::FusedHead& head);
  bool come_back();
  void run_box(const DeviceInput::Place& place, void* tensor);
  Result<std::string> decode(const DecodeTask& task, const order::Pick& pick,
                             std::span<const std::byte> image);
  void count_crop_use(std::uint64_t sample);
  Result<std::span<const std::byte>> take_fields(const DecodeTask& task, std::uint64_t sample,
                                                 std::span<const std::byte> bytes);
  void handle_bad(DecodeTask& task, Failure failure);
  void name_place(const DecodeTask& task, Failure& failure) const;
  static bool is_refused(const DecodeTask& task);
  bool substitute(DecodeTask& task);
  void blank(DecodeTask& task);

  static constexpr std::uint64_t kIdle = ~std::uint64_t{0};

  DecodeShared& shared_;
  const watch::Tracing tracing_;
  transform::SampleWorker worker_;
  SingleReader stand_ins_;
  std::optional<RawToDevice> to_device_;
  std::optional<DirectCopies> copies_;  // Of pictures that cuFile reads.
  std::atomic<std::uint64_t> sample_ = kIdle;
  std::atomic<Clock::rep> started_ = 0;
};

}  // namespace feedrace::pipeline
