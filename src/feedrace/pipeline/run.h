// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "feedrace/pipeline/assembly.h"
#include "feedrace/pipeline/decode_stage.h"
#include "feedrace/pipeline/device_stage.h"
#include "feedrace/pipeline/direct_plan.h"
#include "feedrace/pipeline/read_stage.h"
#include "feedrace/pipeline/shutdown.h"
#include "feedrace/watch/trace.h"

namespace feedrace::pipeline {

/// A device and what its reader needs.
struct ReaderParts {
  ReadStage::MakeBackend make_backend;
  std::shared_ptr<BufferPool> buffers;
  std::size_t base_buffers = 0;
  std::vector<std::size_t> cpus;
};

/// What a run works with; all of it outlives the run.
struct RunParts {
  const formats::Dataset& dataset;
  const formats::SampleSpans* spans;  ///< `dataset`, when further fields are wanted; else null.
  const Pipeline& pipeline;
  std::shared_ptr<const order::SampleOrder> order;
  order::SplitOptions split;
  decode::DecodeLimits limits;
  decode::JpegEngine jpeg_engine = decode::JpegEngine::kFeedrace;
  OnError on_error = OnError::kRaise;
  std::size_t queue_depth = 0;
  std::size_t decode_threads = 0;
  std::size_t window = 0;
  std::uint64_t max_sample_bytes = 0;
  std::size_t horizon = 1;  ///< See `Lookahead::Options`.
  std::vector<ReaderParts> readers;
  std::vector<std::uint32_t> reader_of_shard;   ///< Empty: all are of the first.
  std::shared_ptr<storage::SharedCache> cache;  ///< Null: none.
  std::shared_ptr<SlotPool> slots;
  SingleReader::Factory make_backend;  ///< For stand-ins.
  Quarantine& quarantine;
  storage::FallbackLog& fallbacks;
  ReadCounters& read_counters;
  StageClock& io_clock;
  StageClock& decode_clock;
  JpegCounters& jpeg_counters;
  CropCounters* crops;                       ///< Null: crop indexes are not used.
  std::shared_ptr<DeviceDelivery> delivery;  ///< Null: batches stay on the host.
  StageClock& device_clock;
  watch::Trace& trace;
  DirectParts direct = {};  ///< Where samples come to a GPU's memory; else empty.
};

/// The threads of a loader from one start to one end: a reader a device, the decode threads, and
/// one that brings batches to a GPU. The shutdown specification in ARCHITECTURE.md says who ends
/// when.
class Run {
 public:
  /// Starts the threads at a position of an epoch. Throws Error kIo when no thread can be had.
  Run(const RunParts& parts, std::uint64_t epoch, std::uint64_t position);
  /// Cancels and joins.
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// The next full batch; see `Assembly::take`.
  Assembly::Taken take(Clock::time_point deadline) {
    return device_ ? device_->take(shutdown_.token(), deadline)
                   : assembly_.take(shutdown_.token(), deadline);
  }
  /// Batches that only have to be taken; of a GPU's, those that are not on their way there.
  std::size_t ready_count() const { return assembly_.ready_count(); }
  Shutdown& shutdown() noexcept { return shutdown_; }

  /// True when nothing is being made because the consumer holds every slot.
  bool is_starved() const;
  /// Likewise, of the slots on the GPU.
  bool is_starved_on_device() const { return device_ && device_->is_starved(); }
  /// How full the queues between the stages are.
  watch::Trace::Levels levels() const;
  /// "waits for 3 reads and 1 picture in decode; the longest, 12.0 s: /data/a.jpg".
  std::string describe_waiting() const;

 private:
  void add_reader(std::size_t number, std::uint64_t epoch, std::uint64_t position);
  void join() noexcept;

  const RunParts& parts_;
  Shutdown shutdown_;
  BoundedQueue<DecodeTask> queue_;
  Assembly assembly_;
  DecodeShared decode_shared_;
  std::vector<std::unique_ptr<ReadStage>> readers_;
  std::vector<std::unique_ptr<DecodeThread>> decoders_;
  std::unique_ptr<DeviceStage> device_;
  std::vector<std::thread> threads_;
};

}  // namespace feedrace::pipeline
