// SPDX-License-Identifier: Apache-2.0
// The consumer's way: it waits for a full batch, judges its bad samples and takes it over.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/pipeline/loader_impl.h"

namespace feedrace {
namespace {

using pipeline::Clock;

// A batch that another thread of the consumer is about to let go is not yet one that is kept.
constexpr std::chrono::seconds kHeldBatchGrace{2};

// How long the consumer waits at a time where somebody wants to be asked meanwhile.
constexpr std::chrono::milliseconds kWaitSlice{50};

}  // namespace

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
  watch_.come_back([this] { return stats(); });
  const pipeline::RunWatch::Waiting waiting(watch_);
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
    watch_.leave(stats());
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

}  // namespace feedrace
