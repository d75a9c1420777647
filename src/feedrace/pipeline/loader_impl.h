// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/loader.h"
#include "feedrace/pipeline/device_delivery.h"
#include "feedrace/pipeline/direct_plan.h"
#include "feedrace/pipeline/open_sets.h"
#include "feedrace/pipeline/plan.h"
#include "feedrace/pipeline/quarantine.h"
#include "feedrace/pipeline/run.h"
#include "feedrace/pipeline/run_watch.h"
#include "feedrace/pipeline/showing.h"
#include "feedrace/pipeline/storage_plan.h"
#include "feedrace/ranks/rank_check.h"
#include "feedrace/watch/trace.h"

namespace feedrace {

/// All of a loader. `loader.cc` makes it, starts and ends its threads; `loader_next.cc` hands
/// batches over; `loader_position.cc` knows where it stands, and states; `loader_look.cc` tells
/// what it does.
///
/// Of the consumer's thread alone, but `stats`, `look`, `verdict`, `metrics_address`, `plan`,
/// `trace_sample` and `cancel`, which any thread may call.
class Loader::Impl {
 public:
  explicit Impl(LoaderOptions options);
  ~Impl();

  const Plan& plan() const noexcept { return sizing_.plan; }
  const formats::Dataset& dataset() const noexcept { return *dataset_; }
  bool is_forked() const noexcept { return getpid() != owner_; }
  std::uint64_t epoch() const noexcept { return epoch_; }

  std::optional<Batch> next();
  void set_epoch(std::uint64_t epoch);
  std::string state() const;
  std::string state_after(const Batch& batch) const;
  std::string state_before(const Batch& batch) const {
    return state_text(batch.epoch, batch.position, batch.epoch_bad_samples - batch.bad_samples);
  }
  std::vector<std::string> load_state(std::string_view text, bool accept_changed_data);
  Stats stats() const;
  watch::Snapshot look() const;
  watch::Trace::Levels levels() const;
  std::string metrics_address() const { return showing_->metrics_address(); }
  std::string trace_sample(std::uint64_t sample, std::uint64_t pass) const;
  const std::string& checked_quarantine() const;
  void start_trace(const std::string& path);
  void stop_trace() { trace_.stop(); }
  void pause();
  Verdict verdict(const VerdictInput& input) const;
  void note_handing(double seconds) noexcept { watch_.note_handing(seconds); }
  void cancel() noexcept;

 private:
  decode::DecodeLimits decode_limits() const;
  std::shared_ptr<pipeline::DeviceDelivery> make_delivery();
  std::shared_ptr<cuda::Direct> make_direct() const;
  pipeline::DirectParts make_readers();
  PinMemory pin_memory() const;
  watch::RangeCalls range_calls() const;
  void check_ranks(const std::string& occasion, const ranks::RankFacts& facts) const;
  void check_position();
  void begin_at(std::uint64_t epoch, std::uint64_t position);
  std::string state_text(std::uint64_t epoch, std::uint64_t position,
                         std::uint64_t bad_samples) const;
  void start();
  void stop() noexcept;
  void finish_copies() noexcept;
  void end_trace() noexcept;
  void place_images(Batch& batch, BatchSlot& slot) const;
  std::shared_ptr<pipeline::PendingBatch> take();
  Batch deliver(const std::shared_ptr<pipeline::PendingBatch>& pending);
  void check_bad_samples(pipeline::PendingBatch& pending);
  [[noreturn]] void fail(ErrorCode code, const std::string& message);
  [[noreturn]] static void throw_cancelled();
  [[noreturn]] void throw_timeout();
  [[noreturn]] void throw_starved();

  const pid_t owner_ = getpid();
  const pipeline::Clock::time_point made_ = pipeline::Clock::now();
  const pipeline::OpenedSets opened_;
  const LoaderOptions options_;
  const std::shared_ptr<const formats::Dataset> dataset_;
  const std::shared_ptr<storage::FallbackLog> fallbacks_ = std::make_shared<storage::FallbackLog>();
  const pipeline::StoragePlan storage_;
  pipeline::DeviceChoice device_choice_;  // Until `delivery_` takes it.
  pipeline::Sizing sizing_;
  const order::State base_state_;
  pipeline::Quarantine quarantine_;
  std::vector<pipeline::ReaderParts> readers_;  // Made at the first start.
  pipeline::DirectParts direct_parts_;          // Likewise.
  // Shared with slots, which are pinned by it and may outlive the loader.
  const std::shared_ptr<pipeline::DeviceDelivery> delivery_;  // Null: batches stay on the host.
  const std::shared_ptr<cuda::Direct> direct_;  // Null: samples come to the host's memory.
  const std::shared_ptr<pipeline::SlotPool> slots_;

  watch::Trace trace_{range_calls()};
  const watch::Tracing consumer_tracing_{trace_, watch::TraceStage::kConsumer, 0};
  pipeline::RunWatch watch_{storage_.disks};
  pipeline::ReadCounters read_counters_;
  pipeline::CropCounters crops_;
  pipeline::StageClock io_clock_;
  pipeline::StageClock decode_clock_;
  pipeline::JpegCounters jpeg_counters_;
  pipeline::StageClock device_clock_;
  pipeline::StageClock consumer_clock_;
  std::atomic<std::uint64_t> samples_ = 0;
  std::atomic<std::uint64_t> batches_ = 0;
  std::atomic<std::uint64_t> padded_ = 0;
  std::atomic<std::uint64_t> bad_ = 0;
  std::atomic<std::uint64_t> substituted_ = 0;
  std::atomic<std::uint64_t> blanked_ = 0;
  std::atomic<std::uint64_t> flagged_ = 0;
  pipeline::SentenceLog
      complaints_;  // Of decoders, about samples that were delivered all the same.

  // The consumer's place; only its thread touches these.
  std::shared_ptr<const order::SampleOrder> order_;
  std::optional<order::EpochOrder> epoch_order_;
  std::atomic<std::uint64_t> epoch_ = 0;
  std::uint64_t taken_ = 0;  // Batches of `epoch_order_`.
  std::uint64_t bad_in_epoch_ = 0;
  bool is_position_checked_ = false;  // Among ranks, since the loader was made or got a state.
  std::uint64_t position_checks_ = 0;
  std::size_t planned_warnings_ = 0;  // Of the plan's, those that were there before any state.
  std::exception_ptr failed_;         // What every further call throws.
  std::optional<pipeline::Clock::time_point> left_;  // When the consumer got its last batch.
  std::uint64_t left_with_ = 0;                      // Which one, as a trace names it.

  std::optional<pipeline::RunParts> parts_;
  mutable std::mutex run_mutex_;
  std::unique_ptr<pipeline::Run> run_;        // Replaced by the consumer under run_mutex_.
  bool cancelled_ = false;                    // Guarded by run_mutex_.
  std::optional<pipeline::Showing> showing_;  // Its threads ask for all of the above.
};

}  // namespace feedrace
