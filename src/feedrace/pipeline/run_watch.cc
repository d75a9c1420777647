// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/run_watch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "feedrace/core/cores.h"
#include "feedrace/verdict/rules.h"

namespace feedrace::pipeline {
namespace {

constexpr std::chrono::milliseconds kFirstMarkAfter{250};
// Stretches shorter than this are one late batch.
constexpr double kTellingStretchSeconds = 0.5;
constexpr double kFromMemoryMs = 1.0;

double share(double part, double rest) { return part + rest > 0 ? part / (part + rest) : 0; }

const StageStats* find(const Stats& stats, std::string_view name) {
  for (const StageStats& stage : stats.stages) {
    if (stage.name == name) return &stage;
  }
  return nullptr;
}

/// What a stage did between two moments.
std::optional<verdict::StageFacts> stage_between(const Stats& before, const Stats& after,
                                                 std::string_view name, double absent_wait = 0) {
  const StageStats* then = find(before, name);
  const StageStats* now = find(after, name);
  if (now == nullptr) return std::nullopt;
  const StageStats zero;  // Before the first batch nothing was counted.
  if (then == nullptr) then = &zero;
  const double busy = now->busy_seconds - then->busy_seconds;
  const double cpu = now->cpu_seconds - then->cpu_seconds;
  const auto items = static_cast<double>(now->item_count - then->item_count);
  verdict::StageFacts facts;
  facts.thread_count = now->thread_count;
  facts.busy_share =
      share(busy, std::max(0.0, now->wait_seconds - then->wait_seconds - absent_wait));
  if (cpu > 0 && busy > 0) facts.on_core_share = std::min(1.0, cpu / busy);
  if (busy > 0) facts.images_per_busy_second = items / busy;
  if (cpu > 0) facts.images_per_cpu_second = items / cpu;
  return facts;
}

std::uint64_t total_bytes(const Stats& stats) {
  return std::accumulate(stats.bytes_by_path.begin(), stats.bytes_by_path.end(), std::uint64_t{0});
}

/// Of the samples that were delivered or replaced, those that were bad.
double bad_between(const Stats& before, const Stats& after) {
  const auto bad = static_cast<double>(after.bad_samples - before.bad_samples);
  const auto delivered = static_cast<double>(after.samples - before.samples);
  return delivered > 0 ? std::min(1.0, bad / delivered) : 0;
}

/// Makes rates over the whole time those of the rest of it, as nothing happened meanwhile.
void leave_out(double seconds, host::HostRates& rates) {
  const double rest = rates.seconds - seconds;
  if (seconds <= 0 || rest <= 0) return;
  const double factor = rates.seconds / rest;
  rates.seconds = rest;
  rates.own_cpu_cores *= factor;
  if (rates.swapped_in_a_second) *rates.swapped_in_a_second *= factor;
  if (!rates.disk) return;
  rates.disk->reads_a_second *= factor;
  rates.disk->bytes_a_second *= factor;
  rates.disk->queue_mean *= factor;
  rates.disk->busy_share = std::min(1.0, rates.disk->busy_share * factor);
}

double bytes_between(const Stats& before, const Stats& after, Path path) {
  const auto at = static_cast<std::size_t>(path);
  return static_cast<double>(after.bytes_by_path[at] - before.bytes_by_path[at]);
}

}  // namespace

void WaitCourse::add(double wait_seconds, double busy_seconds, std::uint64_t samples) {
  if (stretches_.empty() || stretches_.back().seconds >= stretch_seconds_) {
    if (stretches_.size() == kMostStretches) {
      for (std::size_t i = 0; i < kMostStretches / 2; ++i) {
        const Stretch& a = stretches_[2 * i];
        const Stretch& b = stretches_[2 * i + 1];
        stretches_[i] = {a.seconds + b.seconds, a.wait_seconds + b.wait_seconds,
                         a.samples + b.samples};
      }
      stretches_.resize(kMostStretches / 2);
      stretch_seconds_ *= 2;
    }
    stretches_.emplace_back();
  }
  Stretch& last = stretches_.back();
  last.seconds += wait_seconds + busy_seconds;
  last.wait_seconds += wait_seconds;
  last.samples += samples;
}

std::optional<WaitCourse::Split> WaitCourse::split() const {
  constexpr std::size_t kFewest = 4;
  if (stretches_.size() < kFewest) return std::nullopt;
  Stretch all;
  for (const Stretch& one : stretches_) {
    all.seconds += one.seconds;
    all.wait_seconds += one.wait_seconds;
    all.samples += one.samples;
  }
  std::optional<Split> best;
  Stretch early;
  for (const Stretch& one : stretches_) {
    early.seconds += one.seconds;
    early.wait_seconds += one.wait_seconds;
    early.samples += one.samples;
    const double rest = all.seconds - early.seconds;
    if (rest < all.seconds / 3 || rest <= 0 || early.seconds <= 0) break;
    const Split now{early.seconds, early.wait_seconds / early.seconds,
                    early.wait_seconds / all.seconds,
                    (all.wait_seconds - early.wait_seconds) / rest,
                    static_cast<double>(all.samples - early.samples) / rest};
    const auto fall = [](const Split& s) { return s.early_wait_share - s.late_wait_share; };
    if (!best || fall(now) > fall(*best)) best = now;
  }
  return best;
}

RunWatch::Mark RunWatch::make_mark(Stats stats) const {
  constexpr double kNs = 1e-9;
  Mark made{std::move(stats),
            host::read_host_counters(disks_),
            static_cast<double>(handing_in_next_ns_) * kNs,
            static_cast<double>(handing_ns_) * kNs,
            ready_,
            asked_,
            {}};
  const std::lock_guard lock(mutex_);  // Not while files are read: the consumer takes it, too.
  made.absence = absence_;
  return made;
}

void RunWatch::leave(Stats stats) {
  left_with_ = std::move(stats);
  left_at_ = Clock::now();
}

void RunWatch::end_absence(const Stats& stats) {
  const Stats before = std::exchange(left_with_, std::nullopt).value();
  const double seconds = std::chrono::duration<double>(Clock::now() - left_at_).count();
  const std::lock_guard lock(mutex_);
  absence_.seconds += seconds;
  for (const StageStats& stage : stats.stages) {
    const StageStats* then = find(before, stage.name);
    if (then == nullptr) continue;
    // A wait is counted when it ends, so that what was not busy has waited, or will have.
    const double busy = stage.busy_seconds - then->busy_seconds;
    const double waited = static_cast<double>(stage.thread_count) * seconds - busy;
    absence_.waits[stage.name] += std::max(0.0, waited);
  }
}

/// Time at the end of which nobody waits for a batch: whoever asks for a verdict behind the loop
/// asks for that of the loop.
double RunWatch::seconds_since_last_batch() const {
  if (is_waited_for_) return 0;
  return std::chrono::duration<double>(Clock::now() - last_batch_.load()).count();
}

void RunWatch::mark(Stats stats) {
  Mark made = make_mark(std::move(stats));
  std::lock_guard lock(mutex_);
  if (!before_) {
    before_ = std::move(made);
    until_next_mark_ = kFirstMarkAfter;
  } else {
    if (latest_) before_ = std::exchange(latest_, std::nullopt);
    latest_ = std::move(made);
    until_next_mark_ *= 2;
  }
  next_mark_ = Clock::now() + until_next_mark_;
}

void RunWatch::fill_consumer(const Mark& before, const Mark& after, verdict::Facts& facts) const {
  const StageStats* then = find(before.stats, "consumer");
  const StageStats* now = find(after.stats, "consumer");
  if (now == nullptr) return;
  const StageStats zero;
  if (then == nullptr) then = &zero;
  const double in_next = now->wait_seconds - then->wait_seconds;
  const double busy = now->busy_seconds - then->busy_seconds;
  const double in_hand = after.handing_in_next_seconds - before.handing_in_next_seconds;
  const double handing = in_hand + after.handing_seconds - before.handing_seconds;
  const double all = in_next + busy;
  if (all <= 0) return;
  facts.wait_share = std::max(0.0, in_next - in_hand) / all;
  facts.handing_share = std::min(1.0, handing / all);
  if (after.asked > before.asked) {
    facts.ready_batches = static_cast<double>(after.ready - before.ready) /
                          static_cast<double>(after.asked - before.asked);
  }
}

void RunWatch::fill_reads(const Mark& before, const Mark& after, verdict::Facts& facts) const {
  const Stats& then = before.stats;
  const Stats& now = after.stats;
  const LatencyHistogram latency = now.read_latency.since(then.read_latency);
  facts.read_p50_ms = static_cast<double>(latency.quantile_ns(0.5)) * 1e-6;
  facts.read_p99_ms = static_cast<double>(latency.quantile_ns(0.99)) * 1e-6;
  if (latency.count() > 0) {
    facts.read_mean_ms =
        static_cast<double>(latency.sum_ns()) * 1e-6 / static_cast<double>(latency.count());
    facts.read_least_ms = static_cast<double>(now.read_latency.quantile_ns(0)) * 1e-6;
  }
  const auto bytes = static_cast<double>(total_bytes(now) - total_bytes(then));
  const auto reads = static_cast<double>(now.reads - then.reads);
  facts.reads_per_second = reads / facts.host.seconds;
  facts.read_bytes_per_second = bytes / facts.host.seconds;
  if (reads > 0) facts.mean_read_bytes = bytes / reads;
  facts.has_shared_cache = now.shared_cache && now.shared_cache->hits > now.reads;
  if (bytes <= 0) {
    if (facts.has_shared_cache) facts.cached_share = 1;
    return;
  }
  facts.compat_share = bytes_between(then, now, Path::kGdsCompat) / bytes;
  if (!disks_.empty() && facts.host.own_read_bytes) {
    facts.cached_share = std::clamp(1 - *facts.host.own_read_bytes / bytes, 0.0, 1.0);
  } else if (bytes_between(then, now, Path::kPageCache) > bytes / 2 &&
             facts.read_p50_ms < kFromMemoryMs) {
    // No device to ask: a file system in memory, or one whose pages are cached.
    facts.cached_share = 1;
  }
}

verdict::Facts RunWatch::facts(const Stats& now, const Plan& plan) const {
  verdict::Facts facts;
  facts.batches = now.batches;
  facts.batch_size = plan.batch_size;
  facts.prefetch_factor = plan.prefetch_factor;
  facts.queue_depth = plan.queue_depth;
  const auto cores = static_cast<double>(plan.usable_cores);
  facts.usable_cores = std::min(cores, quota_cores().value_or(cores));
  facts.decodes_on_cpu = plan.decode_device == "cpu";
  const double since_last_batch = seconds_since_last_batch();
  const Mark after = make_mark(now);
  std::lock_guard lock(mutex_);
  if (!before_) return facts;
  if (now.batches < verdict::kTellingBatches) {
    // Too few to leave the start out, which is all that there is to tell of.
    fill_consumer({}, after, facts);
    facts.decode = stage_between({}, now, "decode");
    return facts;
  }
  facts.host = host::rates_between(before_->host, after.host);
  const double absent_seconds = after.absence.seconds - before_->absence.seconds;
  leave_out(absent_seconds + since_last_batch, facts.host);
  if (facts.host.seconds <= 0) return facts;
  facts.bad_share = bad_between(before_->stats, now);
  facts.images_per_second =
      static_cast<double>(now.samples - before_->stats.samples) / facts.host.seconds;
  fill_consumer(*before_, after, facts);
  fill_reads(*before_, after, facts);
  const auto stage = [&](const char* name) {
    const auto waited = [&](const Mark& mark) {
      const auto found = mark.absence.waits.find(name);
      return found == mark.absence.waits.end() ? 0.0 : found->second;
    };
    return stage_between(before_->stats, now, name, waited(after) - waited(*before_));
  };
  facts.io = stage("io");
  facts.decode = stage("decode");
  facts.device = stage("device");
  if (const auto split = course_.split()) {
    facts.early_seconds = split->early_seconds;
    facts.early_wait_share = split->early_wait_share;
    facts.early_part = split->early_part;
    facts.late_wait_share = split->late_wait_share;
    facts.late_images_per_second = split->late_images_per_second;
  }
  for (const auto& one : course_.stretches()) {
    if (one.seconds < kTellingStretchSeconds) continue;
    const double waited = one.wait_seconds / one.seconds;
    facts.least_wait_share = std::min(facts.least_wait_share.value_or(waited), waited);
    facts.most_wait_share = std::max(facts.most_wait_share.value_or(waited), waited);
  }
  return facts;
}

}  // namespace feedrace::pipeline
