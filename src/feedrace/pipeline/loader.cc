// SPDX-License-Identifier: Apache-2.0
#include "feedrace/loader.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/decoded_pictures.h"
#include "feedrace/pipeline/device_delivery.h"
#include "feedrace/pipeline/direct_plan.h"
#include "feedrace/pipeline/explain.h"
#include "feedrace/pipeline/gpu_distance.h"
#include "feedrace/pipeline/input_files.h"
#include "feedrace/pipeline/open_sets.h"
#include "feedrace/pipeline/plan.h"
#include "feedrace/pipeline/quarantine.h"
#include "feedrace/pipeline/raw_shape.h"
#include "feedrace/pipeline/resume.h"
#include "feedrace/pipeline/run.h"
#include "feedrace/pipeline/run_watch.h"
#include "feedrace/pipeline/sample_trace.h"
#include "feedrace/pipeline/showing.h"
#include "feedrace/pipeline/single_reader.h"
#include "feedrace/pipeline/storage_plan.h"
#include "feedrace/verdict/ceilings.h"
#include "feedrace/verdict/gpu_dmon.h"
#include "feedrace/watch/trace.h"
#include "feedrace/watch/trace_text.h"

namespace feedrace {
namespace {

using pipeline::Clock;

// A batch that another thread of the consumer is about to let go is not yet one that is kept.
constexpr std::chrono::seconds kHeldBatchGrace{2};

// How long the consumer waits at a time where somebody wants to be asked meanwhile.
constexpr std::chrono::milliseconds kWaitSlice{50};

pipeline::OpenedSets open_checked(const LoaderOptions& options) {
  pipeline::check_options(options);
  pipeline::OpenedSets opened = pipeline::open_sets(options);
  pipeline::check_direct(options, *opened.dataset);
  return opened;
}

}  // namespace

class Loader::Impl {
 public:
  explicit Impl(LoaderOptions options)
      : opened_(open_checked(options)),
        options_(pipeline::learn_raw(std::move(options), opened_)),
        dataset_(opened_.dataset),
        storage_(pipeline::plan_storage(options_, *dataset_, fallbacks_)),
        device_choice_(pipeline::choose_device(options_, formats::holds_decoded(*dataset_))),
        sizing_(pipeline::make_sizing(options_, opened_, storage_.make_backends.size(),
                                      device_choice_.decoder != nullptr)),
        base_state_(
            pipeline::make_base_state(options_, *sizing_.order, sizing_.split, opened_.states)),
        quarantine_(checked_quarantine()),
        delivery_(make_delivery()),
        direct_(make_direct()),
        slots_(pipeline::SlotPool::create(
            SlotShape(options_.pipeline, options_.batch_size, pipeline::is_direct_raw(options_)),
            sizing_.planned_slots, sizing_.slot_limit, sizing_.ragged_limit_bytes, pin_memory())),
        order_(sizing_.order) {
    planned_warnings_ = sizing_.plan.warnings.size();
    begin_at(0, 0);
    sizing_.plan.backend = storage_.name;
    sizing_.plan.backend_reason =
        direct_ ? pipeline::direct_reason(sizing_.buffers) : storage_.reason;
    sizing_.plan.shared_cache = storage_.cache_text;
    check_ranks("start", pipeline::rank_facts(base_state_, dataset_->classes()));
    showing_.emplace(
        options_.metrics, options_.has_live_socket, [this] { return look(); }, *dataset_,
        *fallbacks_);
  }

  ~Impl() {
    showing_.reset();
    stop();
    end_trace();
    finish_copies();
  }

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
  watch::Trace::Levels levels() const;
  void place_images(Batch& batch, BatchSlot& slot) const;
  std::shared_ptr<pipeline::PendingBatch> take();
  Batch deliver(const std::shared_ptr<pipeline::PendingBatch>& pending);
  void check_bad_samples(pipeline::PendingBatch& pending);
  [[noreturn]] void fail(ErrorCode code, const std::string& message);
  [[noreturn]] static void throw_cancelled();
  [[noreturn]] void throw_timeout();
  [[noreturn]] void throw_starved();

  const pid_t owner_ = getpid();
  const Clock::time_point made_ = Clock::now();
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
  std::size_t planned_warnings_ = 0;       // Of the plan's, those that were there before any state.
  std::exception_ptr failed_;              // What every further call throws.
  std::optional<Clock::time_point> left_;  // When the consumer got its last batch.
  std::uint64_t left_with_ = 0;            // Which one, as a trace names it.

  std::optional<pipeline::RunParts> parts_;
  mutable std::mutex run_mutex_;
  std::unique_ptr<pipeline::Run> run_;        // Replaced by the consumer under run_mutex_.
  bool cancelled_ = false;                    // Guarded by run_mutex_.
  std::optional<pipeline::Showing> showing_;  // Its threads ask for all of the above.
};

std::shared_ptr<pipeline::DeviceDelivery> Loader::Impl::make_delivery() {
  pipeline::DeviceChoice choice = std::move(device_choice_);
  sizing_.plan.device = choice.name;
  sizing_.plan.device_reason = choice.reason;
  sizing_.plan.decode_device = choice.decode_name;
  sizing_.plan.decode_device_reason = choice.decode_reason;
  if (!choice.device) return nullptr;
  const std::size_t planned =
      pipeline::is_direct_raw(options_) ? sizing_.planned_slots : pipeline::kDeviceBatches;
  return std::make_shared<pipeline::DeviceDelivery>(
      std::move(choice), SlotShape(options_.pipeline, options_.batch_size), planned,
      std::max(planned, sizing_.slot_limit), fallbacks_);
}

std::shared_ptr<cuda::Direct> Loader::Impl::make_direct() const {
  if (!pipeline::is_direct(options_)) return nullptr;
  const bool has_pass = delivery_ && (options_.pipeline.raw || delivery_->decodes());
  if (has_pass) return pipeline::open_direct(options_, delivery_->device());
  throw Error(ErrorCode::kUnsupported, fmt::format("backend \"cufile\" can't be had: {}",
                                                   delivery_ ? sizing_.plan.decode_device_reason
                                                             : sizing_.plan.device_reason));
}

/// Readers, and what those need that read into a device's memory.
pipeline::DirectParts Loader::Impl::make_readers() {
  if (!direct_) {
    readers_ = pipeline::make_readers(storage_, sizing_, *fallbacks_);
    return {};
  }
  auto memory =
      std::make_shared<cuda::DirectMemory>(direct_, sizing_.buffers.count * sizing_.buffers.bytes);
  readers_ = {pipeline::make_direct_reader(memory, sizing_, options_.queue_depth, fallbacks_)};
  if (!options_.pipeline.raw) return {std::move(memory), {}};
  return {std::move(memory), [delivery = delivery_] { return delivery->take(); }};
}

PinMemory Loader::Impl::pin_memory() const {
  if (!delivery_) return {};
  return [delivery = delivery_](std::span<std::byte> memory) { return delivery->pin(memory); };
}

decode::DecodeLimits Loader::Impl::decode_limits() const {
  decode::DecodeLimits limits;
  limits.max_pixels = options_.max_pixels;
  // By cuFile, the largest sample is what its buffers take; what one unpacks to is the host's.
  limits.max_memory_bytes = std::min(
      limits.max_memory_bytes, direct_ ? sizing_.ragged_limit_bytes : sizing_.max_sample_bytes);
  return limits;
}

/// By the plug-in, where batches go to a GPU.
watch::RangeCalls Loader::Impl::range_calls() const {
  if (!delivery_) return {};
  const feedrace_cuda_plugin& table = delivery_->device()->table();
  return {table.begin_range, table.end_range};
}

void Loader::Impl::start() {
  showing_->begin();
  if (readers_.empty()) direct_parts_ = make_readers();
  if (!parts_) {
    const bool uses_crops = options_.crop_index == CropIndexes::kAuto;
    parts_.emplace(pipeline::RunParts{*dataset_,
                                      opened_.spans.get(),
                                      options_.pipeline,
                                      order_,
                                      sizing_.split,
                                      decode_limits(),
                                      options_.jpeg_engine,
                                      options_.on_error,
                                      options_.queue_depth,
                                      sizing_.plan.decode_threads,
                                      options_.prefetch_factor,
                                      sizing_.max_sample_bytes,
                                      sizing_.horizon,
                                      readers_,
                                      storage_.reader_of_shard,
                                      storage_.cache,
                                      slots_,
                                      storage_.make_stand_in,
                                      quarantine_,
                                      *fallbacks_,
                                      read_counters_,
                                      io_clock_,
                                      decode_clock_,
                                      jpeg_counters_,
                                      uses_crops ? &crops_ : nullptr,
                                      delivery_,
                                      device_clock_,
                                      trace_,
                                      direct_parts_});
  }
  auto run = std::make_unique<pipeline::Run>(*parts_, epoch_, epoch_order_->position_of(0));
  std::lock_guard lock(run_mutex_);
  run_ = std::move(run);
  if (cancelled_) run_->shutdown().cancel();
}

void Loader::Impl::stop() noexcept {
  std::unique_ptr<pipeline::Run> ended;
  {
    std::lock_guard lock(run_mutex_);
    ended = std::move(run_);
  }
}

/// Slots that are being copied from hold their pool, which holds what copies: until it is done.
void Loader::Impl::finish_copies() noexcept {
  if (!delivery_ || is_forked()) return;
  try {
    delivery_->finish();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // A lost device reads no more.
  }
}

/// Stands behind the last batch that was delivered, and holds nothing but what it needs to go on.
void Loader::Impl::pause() {
  if (is_forked()) return;
  if (taken_ > 0 && taken_ < epoch_order_->split().steps) {
    const std::uint64_t bad = bad_in_epoch_;
    begin_at(epoch_, epoch_order_->position_behind(taken_ - 1));
    bad_in_epoch_ = bad;
  } else {
    stop();
  }
  showing_->rest();
  parts_.reset();
  readers_.clear();
  direct_parts_ = {};
  finish_copies();
  slots_->release_free();
}

std::string Loader::Impl::trace_sample(std::uint64_t sample, std::uint64_t pass) const {
  if (sample >= dataset_->size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there is no sample {}; the data set has {}, counted from 0", sample,
                            dataset_->size()));
  }
  pipeline::ReadCounters not_counted;
  pipeline::SingleReader reader(*dataset_, storage_.make_stand_in, not_counted,
                                sizing_.max_sample_bytes);
  const auto traced =
      pipeline::trace_sample(options_.pipeline, *dataset_, opened_.spans.get(), reader,
                             decode_limits(), {options_.seed, pass, sample});
  if (!traced) raise(traced.error());
  return *traced;
}

watch::Trace::Levels Loader::Impl::levels() const {
  const std::lock_guard lock(run_mutex_);
  return run_ ? run_->levels() : watch::Trace::Levels();
}

watch::Snapshot Loader::Impl::look() const {
  const Plan& plan = sizing_.plan;
  std::vector<std::string> sources = options_.sources;
  for (const DataSource& set : options_.sets) {
    sources.insert(sources.end(), set.sources.begin(), set.sources.end());
  }
  return {stats(),
          levels(),
          verdict({}).to_text(),
          {{"version", FEEDRACE_VERSION},
           {"pid", fmt::format("{}", owner_)},
           {"data", fmt::format("{}", fmt::join(sources, " "))},
           {"kind", plan.dataset_kind},
           {"pipeline", plan.pipeline},
           {"backend", plan.backend},
           {"device", plan.device},
           {"rank", fmt::format("{}", plan.rank)},
           {"world_size", fmt::format("{}", plan.world_size)},
           {"batch_size", fmt::format("{}", plan.batch_size)}}};
}

/// A list goes on in the file that it was begun in.
const std::string& Loader::Impl::checked_quarantine() const {
  formats::check_output("quarantine_file", options_.quarantine_file,
                        pipeline::input_files(options_, dataset_.get()), formats::is_bad_list);
  return options_.quarantine_file;
}

void Loader::Impl::start_trace(const std::string& path) {
  formats::check_output("trace", path, pipeline::input_files(options_, dataset_.get()),
                        watch::is_trace);
  trace_.start(
      path, [this] { return levels(); },
      [log = fallbacks_](const std::string& sentence) { log->add(sentence); });
}

/// Its writer asks for levels, so it ends before what it asks.
void Loader::Impl::end_trace() noexcept {
  if (is_forked()) return;
  try {
    trace_.stop();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // Told already: it stands among the fallbacks.
  }
}

void Loader::Impl::cancel() noexcept {
  std::lock_guard lock(run_mutex_);
  cancelled_ = true;
  if (run_) run_->shutdown().cancel();
}

void Loader::Impl::check_ranks(const std::string& occasion, const ranks::RankFacts& facts) const {
  if (!options_.rank_check) return;
  const Plan& plan = sizing_.plan;
  ranks::check_ranks(*options_.rank_check, {plan.rank, plan.world_size, plan.world_source},
                     occasion, facts);
}

/// A rank that goes on from no state, or from an older one, would get other samples in silence.
void Loader::Impl::check_position() {
  check_ranks(
      fmt::format("first batch {}", ++position_checks_),
      {{"epoch of the next batch", fmt::format("{}", epoch())},
       {"position of the next batch", fmt::format("{}", epoch_order_->position_of(taken_))}});
  is_position_checked_ = true;
}

/// Makes the next batch the one at a position. Throws before anything has changed.
void Loader::Impl::begin_at(std::uint64_t epoch, std::uint64_t position) {
  order::EpochOrder begun(order_, sizing_.split, epoch, position);
  stop();
  epoch_order_.emplace(std::move(begun));
  epoch_ = epoch;
  taken_ = 0;
  bad_in_epoch_ = 0;
}

void Loader::Impl::set_epoch(std::uint64_t epoch) {
  // Also right after a state was loaded: trainers name the epoch that they go on with.
  const bool stands_there = epoch == epoch_ && taken_ == 0;
  if (!stands_there) begin_at(epoch, 0);
}

std::string Loader::Impl::state_text(std::uint64_t epoch, std::uint64_t position,
                                     std::uint64_t bad_samples) const {
  order::State state = pipeline::state_at(base_state_, *order_, epoch, position);
  if (state.epoch == epoch) state.bad_samples = bad_samples;
  return to_json(state);
}

std::string Loader::Impl::state() const {
  const std::uint64_t position =
      taken_ == 0 ? epoch_order_->position_of(0) : epoch_order_->position_behind(taken_ - 1);
  return state_text(epoch_, position, bad_in_epoch_);
}

std::string Loader::Impl::state_after(const Batch& batch) const {
  const std::uint64_t left = order_->epoch_samples() - batch.position;
  const bool is_last = order::make_split(sizing_.split, left).steps <= 1;
  const std::uint64_t position =
      is_last ? order_->epoch_samples() : batch.position + sizing_.split.global_batch();
  return state_text(batch.epoch, position, batch.epoch_bad_samples);
}

std::vector<std::string> Loader::Impl::load_state(std::string_view text, bool accept_changed_data) {
  const auto saved = order::parse_state(text);
  if (!saved) raise(saved.error());
  order::StateDifferences differences = compare(*saved, base_state_, accept_changed_data);
  if (!differences.errors.empty()) {
    std::vector<std::string> lines = std::move(differences.errors);
    for (const std::string& warning : dataset_->warnings()) lines.push_back(warning);
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the state does not fit this loader: {}", fmt::join(lines, "; ")));
  }
  const order::State::Origin origin = pipeline::is_mix_changed(*saved, base_state_)
                                          ? pipeline::origin_of_change(*saved, base_state_)
                                          : saved->origin;
  const auto order = pipeline::make_order(options_, opened_, origin);
  // Mixes by weight may have got shorter epochs.
  const std::uint64_t left =
      order->epoch_samples() - std::min(saved->position, order->epoch_samples());
  const bool has_batch = order::make_split(sizing_.split, left).steps > 0;
  if (!has_batch) {
    differences.notes.push_back(
        fmt::format("{} samples were left of epoch {}, fewer than a step of {}; goes on with epoch "
                    "{}",
                    left, saved->epoch, sizing_.split.global_batch(), saved->epoch + 1));
  }
  const std::uint64_t epoch = has_batch ? saved->epoch : saved->epoch + 1;
  const std::uint64_t position = has_batch ? saved->position : 0;
  const auto before = std::exchange(order_, order);
  try {
    begin_at(epoch, position);
  } catch (...) {
    order_ = before;
    throw;
  }
  parts_.reset();  // They hold the order.
  is_position_checked_ = false;
  if (has_batch) bad_in_epoch_ = saved->bad_samples;
  std::vector<std::string>& warnings = sizing_.plan.warnings;
  warnings.resize(planned_warnings_);  // Of the last state only.
  warnings.insert(warnings.end(), differences.notes.begin(), differences.notes.end());
  return differences.notes;
}

void Loader::Impl::fail(ErrorCode code, const std::string& message) {
  failed_ = std::make_exception_ptr(Error(code, message));
  showing_->rest();
  stop();
  std::rethrow_exception(failed_);
}

void Loader::Impl::throw_cancelled() {
  throw Error(ErrorCode::kCancelled, "the loader was cancelled, for good; make a new one to go on");
}

void Loader::Impl::throw_timeout() {
  throw Error(ErrorCode::kIo,
              fmt::format("next(): no batch within {} s: {}; look at the device or mount, or raise "
                          "timeout_seconds",
                          options_.timeout_seconds, run_->describe_waiting()));
}

void Loader::Impl::throw_starved() {
  if (run_->is_starved_on_device()) {
    throw Error(delivery_->is_too_small() ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument,
                "next(): " + delivery_->starving_text());
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("next(): the caller holds {} batches of {} each and memory_limit {} has "
                          "no room for another; drop batches or raise memory_limit",
                          slots_->out_count(), human_bytes(slots_->shape().total_bytes),
                          human_bytes(sizing_.plan.memory_limit_bytes)));
}

/// Waits for the next full batch, in slices: at the end of each a consumer that itself holds every
/// slot is told so.
std::shared_ptr<pipeline::PendingBatch> Loader::Impl::take() {
  const auto start = Clock::now();
  const bool endless = options_.timeout_seconds <= 0;
  const auto end = start + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(options_.timeout_seconds));
  while (true) {
    if (options_.while_waiting) options_.while_waiting();
    const auto slice_end = Clock::now() + (options_.while_waiting ? kWaitSlice : kHeldBatchGrace);
    const auto deadline = endless ? slice_end : std::min(end, slice_end);
    pipeline::Assembly::Taken taken = run_->take(deadline);
    switch (taken.status) {
      case pipeline::Assembly::TakeStatus::kTaken:
        return taken.batch;
      case pipeline::Assembly::TakeStatus::kStopped:
        try {
          run_->shutdown().rethrow_if_failed();
        } catch (...) {
          failed_ = std::current_exception();
          showing_->rest();
          stop();
          throw;
        }
        throw_cancelled();
      case pipeline::Assembly::TakeStatus::kTimedOut:
        if ((run_->is_starved() || run_->is_starved_on_device()) &&
            Clock::now() - start >= kHeldBatchGrace) {
          throw_starved();
        }
        if (!endless && Clock::now() >= end) throw_timeout();
        break;
    }
  }
}

/// Applies `on_error` and the budget, in the order of delivery, so that the same set fails at the
/// same batch on any number of threads.
void Loader::Impl::check_bad_samples(pipeline::PendingBatch& pending) {
  std::lock_guard lock(pending.mutex);
  flagged_ += pending.complaints.size();
  for (const std::string& complaint : pending.complaints) complaints_.add(complaint);
  if (pending.bad_samples.empty()) return;
  bad_ += pending.bad_samples.size();
  const auto first =
      std::min_element(pending.bad_samples.begin(), pending.bad_samples.end(),
                       [](const auto& a, const auto& b) { return a.index < b.index; });
  if (pending.fatal) fail(first->failure.code, first->failure.message);
  bad_in_epoch_ += pending.bad_samples.size();
  const auto places = static_cast<double>(sizing_.plan.samples_a_rank);
  const auto by_share = static_cast<std::uint64_t>(options_.error_budget_share * places);
  const std::uint64_t budget = std::min(options_.error_budget, by_share);
  if (bad_in_epoch_ > budget) {
    fail(ErrorCode::kCorruptData,
         fmt::format("{} bad samples in epoch {} are above the budget of {}; the last: {}",
                     bad_in_epoch_, epoch(), budget, first->failure.message));
  }
}

void Loader::Impl::place_images(Batch& batch, BatchSlot& slot) const {
  const auto shape_of = [&](ops::ImageSize size) {
    const std::int64_t height = size.height_px;
    const std::int64_t width = size.width_px;
    return options_.pipeline.layout == Layout::kChw ? std::vector<std::int64_t>{3, height, width}
                                                    : std::vector<std::int64_t>{height, width, 3};
  };
  const DType dtype = options_.pipeline.dtype;
  if (slot.shape().is_ragged) {
    batch.images = {nullptr, dtype, {0}};
    for (std::size_t i = 0; i < batch.size(); ++i) {
      batch.image_list.push_back({slot.ragged_image(i), dtype, shape_of(slot.image_size(i))});
    }
    return;
  }
  const auto& raw = options_.pipeline.raw;
  std::vector<std::int64_t> shape = raw ? *raw->shape : shape_of(slot.shape().image_size);
  shape.insert(shape.begin(), static_cast<std::int64_t>(batch.size()));
  batch.images = {slot.image(0), raw ? *raw->dtype : dtype, std::move(shape)};
}

Batch Loader::Impl::deliver(const std::shared_ptr<pipeline::PendingBatch>& pending) {
  const auto& slot = pending->slot;
  Batch batch(slot);
  batch.labels = {slot->labels(), DType::kInt64, {static_cast<std::int64_t>(pending->size)}};
  batch.fields = std::move(pending->fields);
  batch.indices = {slot->indices(), pending->size};
  batch.flags = {slot->flags(), pending->size};
  batch.epoch = pending->order->epoch();
  batch.step = pending->order->step_of(pending->number);
  batch.position = pending->order->position_of(pending->number);
  batch.bad_samples = pending->bad_samples.size();
  batch.epoch_bad_samples = bad_in_epoch_;
  place_images(batch, *slot);
  const auto count_of = [&](SampleFlag flag) {
    return static_cast<std::uint64_t>(std::count(batch.flags.begin(), batch.flags.end(), flag));
  };
  const std::uint64_t padded = count_of(SampleFlag::kPadded);
  samples_ += pending->size - padded;
  padded_ += padded;
  substituted_ += count_of(SampleFlag::kSubstituted);
  blanked_ += count_of(SampleFlag::kBlank);
  ++batches_;
  return delivery_ ? delivery_->wrap(std::move(batch), *pending) : std::move(batch);
}

std::optional<Batch> Loader::Impl::next() {
  if (is_forked()) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("next() was called in process {}, a fork of process {} that made the "
                            "loader; threads do not survive a fork: make the loader after it",
                            getpid(), owner_));
  }
  if (failed_) std::rethrow_exception(failed_);
  {
    std::lock_guard lock(run_mutex_);
    if (cancelled_) throw_cancelled();
  }
  const auto entered = Clock::now();
  const watch::Range range = consumer_tracing_.range(watch::TraceKind::kNext);
  const std::uint64_t busy_ns = left_ ? pipeline::nanoseconds_between(*left_, entered) : 0;
  if (left_) {
    consumer_clock_.add_busy(busy_ns);
    consumer_tracing_.span(watch::TraceKind::kTrain, *left_, entered, 0, left_with_);
  }
  left_.reset();
  if (taken_ == epoch_order_->split().steps) {
    const std::uint64_t following = epoch_ + 1;
    epoch_order_.emplace(order_, sizing_.split, following);
    epoch_ = following;  // The run walks on into it by itself.
    taken_ = 0;
    bad_in_epoch_ = 0;
    return std::nullopt;
  }
  if (!is_position_checked_) check_position();
  if (!run_) start();
  const std::size_t ready = run_->ready_count();
  const auto pending = take();
  const std::uint64_t waited_ns = pipeline::nanoseconds_since(entered);
  check_bad_samples(*pending);
  ++taken_;
  left_with_ = pending->trace_id();
  Batch batch = deliver(pending);
  const std::uint64_t all_ns = pipeline::nanoseconds_since(entered);
  consumer_clock_.add_wait(all_ns);
  consumer_clock_.add_items(1);
  constexpr double kNs = 1e-9;
  watch_.add(static_cast<double>(waited_ns) * kNs, static_cast<double>(all_ns - waited_ns) * kNs,
             static_cast<double>(busy_ns) * kNs, ready, batch.size(), [this] { return stats(); });
  left_ = Clock::now();
  consumer_tracing_.span(watch::TraceKind::kNext, entered, *left_);
  consumer_tracing_.mark(watch::TraceKind::kBatchTaken, watch::just_before(*left_), left_with_);
  return batch;
}

Stats Loader::Impl::stats() const {
  Stats stats;
  stats.seconds = static_cast<double>(pipeline::nanoseconds_since(made_)) * 1e-9;
  stats.samples = samples_;
  stats.batches = batches_;
  stats.padded_samples = padded_;
  stats.bad_samples = bad_;
  stats.substituted_samples = substituted_;
  stats.blanked_samples = blanked_;
  stats.flagged_samples = flagged_;
  stats.crop_indexed = crops_.used;
  stats.crop_index_refused = crops_.refused;
  stats.extra_slots = slots_->extra_count();
  read_counters_.copy_to(stats);
  stats.stages = {io_clock_.snapshot("io", sizing_.reader_count),
                  decode_clock_.snapshot("decode", sizing_.plan.decode_threads)};
  if (delivery_) {
    stats.device = delivery_->stats();
    stats.stages.push_back(device_clock_.snapshot("device", 1));
  }
  stats.stages.push_back(consumer_clock_.snapshot("consumer", 1));
  stats.backend = sizing_.plan.backend;
  stats.fallbacks = fallbacks_->counts();
  if (storage_.cache) stats.shared_cache = pipeline::cache_stats(*storage_.cache);
  stats.jpeg = jpeg_counters_.snapshot();
  stats.complaints = complaints_.copy();
  return stats;
}

Verdict Loader::Impl::verdict(const VerdictInput& input) const {
  const Stats now = stats();
  verdict::Facts facts = watch_.facts(now, sizing_.plan);
  if (input.ceilings_json) facts.ceilings = verdict::parse_ceilings(*input.ceilings_json);
  if (input.gpu_dmon) facts.gpu_busy_share = verdict::busiest_gpu(*input.gpu_dmon);
  const Pipeline& pipeline = options_.pipeline;
  facts.reads_only = pipeline.reads_only || pipeline.raw.has_value();
  facts.are_files = dataset_->shards().empty();
  facts.may_use_crop_index = sizing_.plan.crop_index.empty() && pipeline.crops_at_random() &&
                             options_.jpeg_engine == decode::JpegEngine::kFeedrace &&
                             now.jpeg.feedrace > 0;
  facts.is_direct = pipeline::is_direct(options_);
  if (facts.is_direct && delivery_) {
    const cuda::Device& gpu = *delivery_->device();
    const auto known = gpu.facts();
    const auto distance = pipeline::gpu_distance(
        known ? pipeline::pci_address_of(*known, gpu.ordinal()) : std::string(), storage_.disks);
    facts.is_gpu_far = distance.is_far;
    facts.gpu_path = distance.path;
  }
  return pipeline::explain(facts, now.jpeg, pipeline);
}

Loader::Loader(LoaderOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Loader::~Loader() {
  // The threads live in the parent: joining them here would wait for ever, and their memory is the
  // parent's copy-on-write pages.
  if (impl_ && impl_->is_forked())
    impl_.release();  // NOLINT(bugprone-unused-return-value): left to the parent.
}

const Plan& Loader::plan() const noexcept { return impl_->plan(); }
const formats::Dataset& Loader::dataset() const noexcept { return impl_->dataset(); }
std::optional<Batch> Loader::next() { return impl_->next(); }
void Loader::set_epoch(std::uint64_t epoch) { impl_->set_epoch(epoch); }
std::uint64_t Loader::epoch() const noexcept { return impl_->epoch(); }
std::string Loader::state() const { return impl_->state(); }
std::string Loader::state_after(const Batch& batch) const { return impl_->state_after(batch); }
std::string Loader::state_before(const Batch& batch) const { return impl_->state_before(batch); }
std::vector<std::string> Loader::load_state(std::string_view state, bool accept_changed_data) {
  return impl_->load_state(state, accept_changed_data);
}
std::string Loader::trace_sample(std::uint64_t sample, std::uint64_t pass) const {
  return impl_->trace_sample(sample, pass);
}
void Loader::start_trace(const std::string& path) { impl_->start_trace(path); }
void Loader::stop_trace() { impl_->stop_trace(); }
void Loader::pause() { impl_->pause(); }
Stats Loader::stats() const { return impl_->stats(); }
std::string Loader::metrics_address() const { return impl_->metrics_address(); }
Verdict Loader::verdict(const VerdictInput& input) const { return impl_->verdict(input); }
void Loader::note_handing(double seconds) noexcept { impl_->note_handing(seconds); }
void Loader::cancel() noexcept { impl_->cancel(); }

}  // namespace feedrace
