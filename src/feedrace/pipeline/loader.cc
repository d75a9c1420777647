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
#include "feedrace/pipeline/explain.h"
#include "feedrace/pipeline/plan.h"
#include "feedrace/pipeline/quarantine.h"
#include "feedrace/pipeline/run.h"
#include "feedrace/storage/registry.h"

namespace feedrace {
namespace {

using pipeline::Clock;

// A batch that another thread of the consumer is about to let go is not yet one that is kept.
constexpr std::chrono::seconds kHeldBatchGrace{2};

std::shared_ptr<const formats::Dataset> open(const LoaderOptions& options) {
  if (options.dataset) return options.dataset;
  return formats::open_dataset(options.sources, options.format);
}

/// Throws Error kUnsupported when the options refuse what would be used instead.
storage::BackendChoice choose_backend(const LoaderOptions& options) {
  storage::BackendChoice choice;
  if (options.backend_factory) {
    choice.backend = options.backend_factory();
    choice.name = choice.backend->name();
    choice.reason = "given by the program";
    return choice;
  }
  storage::BackendOptions backend_options;
  backend_options.queue_depth = options.queue_depth;
  choice = storage::make_backend(options.backend, backend_options);
  if (choice.is_fallback && options.fallback == Fallback::kError) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("storage: {}; fallback=error refuses to use {} instead", choice.reason,
                            choice.name));
  }
  return choice;
}

/// What reads stand-ins for bad samples: a rare path, one read at a time, not worth a ring.
std::unique_ptr<storage::Backend> make_stand_in_backend(const LoaderOptions& options) {
  if (options.backend_factory) return options.backend_factory();
  storage::BackendOptions backend_options;
  backend_options.queue_depth = 1;
  return storage::make_backend("buffered", backend_options).backend;
}

}  // namespace

class Loader::Impl {
 public:
  explicit Impl(LoaderOptions options)
      : options_(std::move(options)),
        dataset_(open(options_)),
        sizing_(pipeline::make_sizing(options_, *dataset_)),
        quarantine_(options_.quarantine_file),
        slots_(pipeline::SlotPool::create(SlotShape(options_.pipeline, options_.batch_size),
                                          sizing_.planned_slots, sizing_.slot_limit)),
        epoch_order_(std::in_place, sizing_.order, 0) {
    storage::BackendChoice choice = choose_backend(options_);
    sizing_.plan.backend = choice.name;
    sizing_.plan.backend_reason = choice.reason;
    if (choice.is_fallback) fallbacks_.add(choice.reason);
    next_backend_ = std::move(choice.backend);
  }

  ~Impl() { stop(); }

  const Plan& plan() const noexcept { return sizing_.plan; }
  const formats::Dataset& dataset() const noexcept { return *dataset_; }
  bool is_forked() const noexcept { return getpid() != owner_; }
  std::uint64_t epoch() const noexcept { return epoch_; }

  std::optional<Batch> next();
  void set_epoch(std::uint64_t epoch);
  Stats stats() const;
  std::string explain() const { return pipeline::explain(stats(), options_.pipeline); }
  void cancel() noexcept;

 private:
  decode::DecodeLimits decode_limits() const;
  void start();
  void stop() noexcept;
  std::shared_ptr<pipeline::PendingBatch> take();
  Batch deliver(const std::shared_ptr<pipeline::PendingBatch>& pending);
  void check_bad_samples(pipeline::PendingBatch& pending);
  [[noreturn]] void fail(ErrorCode code, const std::string& message);
  [[noreturn]] void throw_timeout();
  [[noreturn]] void throw_starved();

  const pid_t owner_ = getpid();
  const Clock::time_point made_ = Clock::now();
  const LoaderOptions options_;
  const std::shared_ptr<const formats::Dataset> dataset_;
  pipeline::Sizing sizing_;
  pipeline::Quarantine quarantine_;
  std::shared_ptr<BufferPool> buffers_;
  const std::shared_ptr<pipeline::SlotPool> slots_;
  std::unique_ptr<storage::Backend> next_backend_;  // Of the next run; probed when planning.

  pipeline::SentenceLog fallbacks_;
  pipeline::ReadCounters read_counters_;
  pipeline::StageClock io_clock_;
  pipeline::StageClock decode_clock_;
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
  std::optional<order::EpochOrder> epoch_order_;
  std::atomic<std::uint64_t> epoch_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t bad_in_epoch_ = 0;
  std::exception_ptr failed_;              // What every further call throws.
  std::optional<Clock::time_point> left_;  // When the consumer got its last batch.

  std::optional<pipeline::RunParts> parts_;
  mutable std::mutex run_mutex_;
  std::unique_ptr<pipeline::Run> run_;  // Replaced by the consumer under run_mutex_.
  bool cancelled_ = false;              // Guarded by run_mutex_.
};

decode::DecodeLimits Loader::Impl::decode_limits() const {
  decode::DecodeLimits limits;
  limits.max_pixels = options_.max_pixels;
  limits.max_memory_bytes = std::min(limits.max_memory_bytes, sizing_.max_sample_bytes);
  return limits;
}

void Loader::Impl::start() {
  if (!buffers_) {
    const std::uint64_t oversized = sizing_.max_sample_bytes;
    buffers_ = BufferPool::create(sizing_.buffers.count, sizing_.buffers.bytes, oversized);
  }
  if (!parts_) {
    parts_.emplace(
        pipeline::RunParts{*dataset_, options_.pipeline, sizing_.order, decode_limits(),
                           options_.on_error, options_.queue_depth, sizing_.plan.decode_threads,
                           options_.prefetch_factor, sizing_.max_sample_bytes, buffers_, slots_,
                           [this] { return make_stand_in_backend(options_); }, quarantine_,
                           fallbacks_, read_counters_, io_clock_, decode_clock_});
  }
  auto backend = next_backend_ ? std::move(next_backend_) : choose_backend(options_).backend;
  auto run = std::make_unique<pipeline::Run>(*parts_, std::move(backend), epoch_);
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

void Loader::Impl::cancel() noexcept {
  std::lock_guard lock(run_mutex_);
  cancelled_ = true;
  if (run_) run_->shutdown().cancel();
}

void Loader::Impl::set_epoch(std::uint64_t epoch) {
  const bool stands_there = epoch == epoch_ && step_ == 0;
  if (stands_there) return;
  stop();
  epoch_ = epoch;
  step_ = 0;
  bad_in_epoch_ = 0;
  epoch_order_.emplace(sizing_.order, epoch);
}

void Loader::Impl::fail(ErrorCode code, const std::string& message) {
  failed_ = std::make_exception_ptr(Error(code, message));
  stop();
  std::rethrow_exception(failed_);
}

void Loader::Impl::throw_timeout() {
  throw Error(ErrorCode::kIo,
              fmt::format("next(): no batch within {} s: {}; look at the device or mount, or raise "
                          "timeout_seconds",
                          options_.timeout_seconds, run_->describe_waiting()));
}

void Loader::Impl::throw_starved() {
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
    const auto slice_end = Clock::now() + kHeldBatchGrace;
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
          stop();
          throw;
        }
        throw Error(ErrorCode::kCancelled, "the loader was cancelled");
      case pipeline::Assembly::TakeStatus::kTimedOut:
        if (run_->is_starved() && Clock::now() - start >= kHeldBatchGrace) throw_starved();
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
  const auto positions = static_cast<double>(epoch_order_->plan().positions);
  const auto by_share = static_cast<std::uint64_t>(options_.error_budget_share * positions);
  const std::uint64_t budget = std::min(options_.error_budget, by_share);
  if (bad_in_epoch_ > budget) {
    fail(ErrorCode::kCorruptData,
         fmt::format("{} bad samples in epoch {} are above the budget of {}; the last: {}",
                     bad_in_epoch_, epoch(), budget, first->failure.message));
  }
}

Batch Loader::Impl::deliver(const std::shared_ptr<pipeline::PendingBatch>& pending) {
  const auto& slot = pending->slot;
  const auto count = static_cast<std::int64_t>(pending->size);
  const ops::ImageSize size = options_.pipeline.output_size();
  const std::int64_t height = size.height_px;
  const std::int64_t width = size.width_px;
  Batch batch(slot);
  batch.images.data = slot->image(0);
  batch.images.dtype = options_.pipeline.dtype;
  batch.images.shape = options_.pipeline.layout == Layout::kChw
                           ? std::vector<std::int64_t>{count, 3, height, width}
                           : std::vector<std::int64_t>{count, height, width, 3};
  batch.labels = {slot->labels(), DType::kInt64, {count}};
  batch.indices = {slot->indices(), pending->size};
  batch.flags = {slot->flags(), pending->size};
  batch.epoch = pending->order->epoch();
  batch.step = pending->step;
  const auto count_of = [&](SampleFlag flag) {
    return static_cast<std::uint64_t>(std::count(batch.flags.begin(), batch.flags.end(), flag));
  };
  const std::uint64_t padded = count_of(SampleFlag::kPadded);
  samples_ += pending->size - padded;
  padded_ += padded;
  substituted_ += count_of(SampleFlag::kSubstituted);
  blanked_ += count_of(SampleFlag::kBlank);
  ++batches_;
  return batch;
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
    if (cancelled_) throw Error(ErrorCode::kCancelled, "the loader was cancelled");
  }
  const auto entered = Clock::now();
  if (left_) consumer_clock_.add_busy(pipeline::nanoseconds_since(*left_));
  left_.reset();
  if (step_ == epoch_order_->plan().steps) {
    ++epoch_;  // The run walks on into it by itself.
    step_ = 0;
    bad_in_epoch_ = 0;
    epoch_order_.emplace(sizing_.order, epoch_);
    return std::nullopt;
  }
  if (!run_) start();
  const auto pending = take();
  check_bad_samples(*pending);
  ++step_;
  Batch batch = deliver(pending);
  consumer_clock_.add_wait(pipeline::nanoseconds_since(entered));
  consumer_clock_.add_items(1);
  left_ = Clock::now();
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
  stats.extra_slots = slots_->extra_count();
  read_counters_.copy_to(stats);
  stats.stages = {io_clock_.snapshot("io", 1),
                  decode_clock_.snapshot("decode", sizing_.plan.decode_threads),
                  consumer_clock_.snapshot("consumer", 1)};
  stats.backend = sizing_.plan.backend;
  stats.fallbacks = fallbacks_.copy();
  stats.complaints = complaints_.copy();
  return stats;
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
Stats Loader::stats() const { return impl_->stats(); }
std::string Loader::explain() const { return impl_->explain(); }
void Loader::cancel() noexcept { impl_->cancel(); }

}  // namespace feedrace
