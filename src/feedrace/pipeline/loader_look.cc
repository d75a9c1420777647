// SPDX-License-Identifier: Apache-2.0
// What a loader tells of itself: counters, levels, traces, its verdict.

#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/pipeline/explain.h"
#include "feedrace/pipeline/gpu_distance.h"
#include "feedrace/pipeline/input_files.h"
#include "feedrace/pipeline/loader_impl.h"
#include "feedrace/pipeline/sample_trace.h"
#include "feedrace/pipeline/single_reader.h"
#include "feedrace/verdict/ceilings.h"
#include "feedrace/verdict/gpu_dmon.h"
#include "feedrace/watch/trace_text.h"

namespace feedrace {

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

}  // namespace feedrace
