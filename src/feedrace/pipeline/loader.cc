// SPDX-License-Identifier: Apache-2.0
#include "feedrace/loader.h"

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "feedrace/formats/decoded_pictures.h"
#include "feedrace/pipeline/input_files.h"
#include "feedrace/pipeline/loader_impl.h"
#include "feedrace/pipeline/raw_shape.h"
#include "feedrace/pipeline/resume.h"

namespace feedrace {
namespace {

pipeline::OpenedSets open_checked(const LoaderOptions& options) {
  pipeline::check_options(options);
  pipeline::OpenedSets opened = pipeline::open_sets(options);
  pipeline::check_direct(options, *opened.dataset);
  return opened;
}

}  // namespace

Loader::Impl::Impl(LoaderOptions options)
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

Loader::Impl::~Impl() {
  showing_.reset();
  stop();
  end_trace();
  finish_copies();
}

/// A list goes on in the file that it was begun in.
const std::string& Loader::Impl::checked_quarantine() const {
  formats::check_output("quarantine_file", options_.quarantine_file,
                        pipeline::input_files(options_, dataset_.get()), formats::is_bad_list);
  return options_.quarantine_file;
}

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
std::vector<QueueLevel> Loader::queue_levels() const {
  std::vector<QueueLevel> levels;
  for (const auto& [name, length] : impl_->levels()) levels.push_back({name, length});
  return levels;
}
std::string Loader::metrics_address() const { return impl_->metrics_address(); }
Verdict Loader::verdict(const VerdictInput& input) const { return impl_->verdict(input); }
void Loader::note_handing(double seconds) noexcept { impl_->note_handing(seconds); }
void Loader::cancel() noexcept { impl_->cancel(); }

}  // namespace feedrace
