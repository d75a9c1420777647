// SPDX-License-Identifier: Apache-2.0
#include "feedrace/verdict/rules.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/core/text.h"
#include "feedrace/verdict/outlook.h"
#include "feedrace/verdict/wording.h"

namespace feedrace::verdict {
namespace {

// A consumer that waits less than this gets all that it can take.
constexpr double kUnnoticedWait = 0.05;
// Where waiting was not timed: so many of the batches that may be ready are.
constexpr double kReadyEnough = 0.8;
// Threads busier than this are what everything else waits for.
constexpr double kSaturated = 0.8;
// A reader that waits for the device less than this is not what decode threads wait for.
constexpr double kReadsMatter = 0.3;
// Of batches a second: with 200 us for each, what hands it from thread to thread (20 to 50 us) is a
// large part, where no thread is at work all the time.
constexpr double kManyBatches = 5000;
// Threads that are busy but this little on a core share it with somebody else.
constexpr double kOwnCore = 0.8;
// So much of the consumer's waiting, if it waits for one thread.
constexpr double kOneIsBusy = 0.8;
// From so much of a cost on, it is named as the cause.
constexpr double kLackMatters = 0.5;     // Of the waiting: time that threads wait for a core.
constexpr double kOthersMatter = 0.2;    // Of the usable cores, by other processes.
constexpr double kStealMatters = 0.1;    // Of the cores' time.
constexpr double kQuotaMatters = 0.2;    // Of the periods of a CPU quota.
constexpr double kHandingMatters = 0.2;  // Of the consumer's time.
constexpr double kForeignReads = 0.4;    // Of what the device gives, to others.
constexpr double kPressureMatters = 0.2;
constexpr double kSwapMatters = 100;  // Pages a second: 0.4 MB/s, of a page at a time.
constexpr double kMostlyCached = 0.9;
// Where a request costs as much as the transfer of so many bytes at the least, files are small.
constexpr double kSmallFileBytes = 1 << 20;
// Waiting early and not late: a start, not a state.
constexpr double kEarlyWait = 0.3;
constexpr double kLateShareOfEarly = 1.0 / 3;
constexpr double kEarlySeconds = 1;  // Less is what any run takes to come going.
constexpr double kSwing = 0.3;
// Reads that take so many times as long as the quickest seem to wait in line; over a network they
// differ by half as much.
constexpr double kInLine = 3;
// More reads in flight than this only wait in the device's queue.
constexpr double kMostInFlight = 128;
/// A rate that is less above the present one is no gain.
constexpr double kWorthIt = 1.03;

/// Rates of stand-ins and blank pictures are not those of the data set.
constexpr double kMostlyBad = 0.5;
constexpr double kBadMatters = 0.01;

class Judge {
 public:
  explicit Judge(const Facts& facts) : in_(facts), outlook_(facts) {
    out_.images_per_second = facts.images_per_second;
  }

  Verdict run() {
    decide();
    if (in_.bad_share >= kBadMatters && out_.limit != Limit::kBadSamples) {
      out_.notes.push_back(
          fmt::format("{} of the samples were bad, and count as any other: feedrace verify PATH "
                      "names them",
                      percent(in_.bad_share)));
    }
    return std::move(out_);
  }

 private:
  void decide();
  bool decide_early();
  bool decide_host();
  void decide_batch_overhead();
  void decide_busy_decode();
  void decide_storage();

  void conclude(Limit limit, std::string headline, const std::string& part);
  void say(std::string clause) { out_.evidence.push_back(std::move(clause)); }
  void advise(std::string action, std::string command = {}, std::optional<double> rate = {}) {
    // What would not change anything is no remedy.
    if (rate && *rate < in_.images_per_second * kWorthIt) rate.reset();
    out_.remedies.push_back({std::move(action), std::move(command), rate});
  }

  bool consumer_is_fed() const;
  bool hands_over_often() const;
  bool cores_are_shared() const;
  bool cores_explain_waiting() const;
  void say_waiting();
  void say_reads();
  void say_swing();
  void advise_decode();
  void advise_reads_in_flight();

  const Facts& in_;
  const Outlook outlook_;
  Verdict out_;
};

bool Judge::consumer_is_fed() const {
  if (in_.wait_share) return *in_.wait_share < kUnnoticedWait;
  return in_.ready_batches && in_.prefetch_factor > 0 &&
         *in_.ready_batches >= kReadyEnough * static_cast<double>(in_.prefetch_factor);
}

void Judge::say_waiting() {
  if (in_.wait_share) {
    say(fmt::format("the consumer waited {} of the time", percent(*in_.wait_share)));
  } else if (in_.ready_batches) {
    say(fmt::format("{:.1f} batches were ready when it asked", *in_.ready_batches));
  }
  if (in_.decode) {
    say(fmt::format("{} {} {} busy", counted(in_.decode->thread_count, "decode thread"),
                    in_.decode->thread_count == 1 ? "was" : "were",
                    percent(in_.decode->busy_share)));
  }
}

void Judge::say_swing() {
  if (!in_.least_wait_share || !in_.most_wait_share) return;
  if (*in_.most_wait_share - *in_.least_wait_share < kSwing) return;
  say(fmt::format("waiting swings between {} and {}", percent(*in_.least_wait_share),
                  percent(*in_.most_wait_share)));
}

void Judge::say_reads() {
  if (in_.reads_per_second > 0) {
    say(fmt::format("a read took {:.1f} ms in the middle and {:.1f} ms at the 99th percentile",
                    in_.read_p50_ms, in_.read_p99_ms));
    if (in_.read_least_ms > 0 && in_.read_mean_ms > kInLine * in_.read_least_ms) {
      say(fmt::format("the quickest {:.1f} ms: reads seem to wait in line", in_.read_least_ms));
    }
    say(fmt::format("{} reads/s of {} on average", rounded(in_.reads_per_second),
                    human_bytes(static_cast<std::uint64_t>(in_.mean_read_bytes))));
  }
  if (const auto& disk = in_.host.disk; disk && disk->reads_a_second > 0) {
    say(fmt::format("{} gave {}/s in {} requests/s of {:.1f} ms with {:.1f} in flight", disk->name,
                    human_bytes(static_cast<std::uint64_t>(disk->bytes_a_second)),
                    rounded(disk->reads_a_second), disk->read_ms, disk->queue_mean));
  }
}

void Judge::conclude(Limit limit, std::string headline, const std::string& part) {
  out_.limit = limit;
  out_.headline = std::move(headline);
  out_.ceilings = outlook_.ceilings_without(part);
}

/// What is clear without looking at stages.
bool Judge::decide_early() {
  if (in_.batches == 0) {
    out_.headline = "no verdict yet: no batch was delivered";
    return true;
  }
  if (in_.batches < kTellingBatches) {
    out_.limit = Limit::kTooShort;
    out_.headline =
        fmt::format("the run is too short to tell what limits: after {}",
                    in_.batches == 1 ? "1 batch" : fmt::format("{} batches", in_.batches));
    say_waiting();
    out_.headline += ", " + fmt::format("{}", fmt::join(out_.evidence, ", "));
    out_.evidence.clear();
    out_.headline +=
        fmt::format(", and most of that is the start; ask again after {} batches", kTellingBatches);
    return true;
  }
  if (in_.bad_share >= kMostlyBad) {
    conclude(Limit::kBadSamples, "most samples are bad, so that no rate says anything", "");
    say(fmt::format("{} of them were replaced or left blank", percent(in_.bad_share)));
    advise("find out what is wrong with them", "feedrace verify PATH --bad FILE");
    return true;
  }
  // Before the consumer, which waits for the GPU while it seems busy.
  if (in_.device && in_.device->busy_share >= kSaturated) {
    conclude(Limit::kGpuStage, "the GPU's stage limits", "");
    say_waiting();
    say(fmt::format("the thread that has pictures decoded on the GPU was {} busy",
                    percent(in_.device->busy_share)));
    advise("try decode_device=\"cpu\" where cores are idle, or another hardware_share");
    return true;
  }
  if (in_.handing_share && *in_.handing_share >= kHandingMatters &&
      *in_.handing_share > in_.wait_share.value_or(0)) {
    decide_batch_overhead();
    return true;
  }
  if (in_.early_wait_share && in_.late_wait_share && *in_.early_wait_share >= kEarlyWait &&
      in_.early_seconds >= kEarlySeconds && in_.early_part >= kUnnoticedWait &&
      *in_.late_wait_share <= kLateShareOfEarly * *in_.early_wait_share &&
      in_.late_images_per_second > 0) {
    const bool is_over = *in_.late_wait_share < kUnnoticedWait;
    conclude(Limit::kColdStart,
             is_over ? "a cold start limits, and nothing any more"
                     : "a cold start limits more than anything since",
             "storage");
    say(fmt::format("the consumer waited {} of the first {:.1f} s and {} of the last part",
                    percent(*in_.early_wait_share), in_.early_seconds,
                    percent(*in_.late_wait_share)));
    advise("read the data into the page cache before", "feedrace warm PATH",
           in_.late_images_per_second);
    advise(
        "where it does not fit into memory, read past the cache (page_cache=\"drop\"): steady "
        "from the start");
    return true;
  }
  if (consumer_is_fed()) {
    const bool is_gpu = in_.gpu_busy_share && *in_.gpu_busy_share >= kSaturated;
    conclude(Limit::kConsumer, is_gpu ? "the GPU limits" : "the consumer limits", "consumer");
    say_waiting();
    if (is_gpu) say(fmt::format("the GPU was {} busy", percent(*in_.gpu_busy_share)));
    out_.notes.emplace_back(is_gpu ? "nothing to do here"
                                   : "nothing to do here: batches wait for the training loop");
    return true;
  }
  return false;
}

/// Handing over is what the consumer waits for, or what all threads wait for one after another.
void Judge::decide_batch_overhead() {
  conclude(Limit::kBatchOverhead, "handing over batches limits", "");
  const double handing = in_.handing_share.value_or(0);
  if (handing >= kHandingMatters) {
    say(fmt::format("batches of {} take {} of the consumer's time though they are ready",
                    in_.batch_size, percent(handing)));
  } else {
    say_waiting();
    if (!in_.io || in_.io->busy_share < kReadsMatter) say("reads were hardly waited for");
    say(fmt::format("{} batches/s of {} went from thread to thread",
                    rounded(in_.images_per_second / static_cast<double>(in_.batch_size)),
                    in_.batch_size));
  }
  constexpr std::size_t kTimes = 8;
  advise("larger batches", fmt::format("batch_size={}", kTimes * in_.batch_size),
         outlook_.with_batches_larger(kTimes));
}

/// What the machine does to everybody in it.
bool Judge::decide_host() {
  const host::HostRates& host = in_.host;
  if (host.swapped_in_a_second && *host.swapped_in_a_second >= kSwapMatters) {
    conclude(Limit::kSwap, "swapping limits", "");
    say_waiting();
    say(fmt::format("{} pages/s came back from swap", rounded(*host.swapped_in_a_second)));
    advise("less memory: a smaller memory_limit, batch or prefetch_factor, fewer processes");
    advise("more memory");
    return true;
  }
  if (host.throttled_period_share && *host.throttled_period_share >= kQuotaMatters) {
    conclude(Limit::kQuota, "the control group's CPU quota limits", "");
    say_waiting();
    say(fmt::format("the group was stopped in {} of its periods",
                    percent(*host.throttled_period_share)));
    say(fmt::format("it may use {:.2g} cores", in_.usable_cores));
    advise("a larger quota (cpu.max, docker --cpus, limits.cpu of the pod)");
    advise("no more decode threads than the quota has cores: they only use it up sooner");
    return true;
  }
  if (host.steal_share && *host.steal_share >= kStealMatters) {
    conclude(Limit::kSteal, "the hypervisor limits", "");
    say_waiting();
    say(fmt::format("it took {} of the cores' time", percent(*host.steal_share)));
    advise("a machine with cores of its own, or one that is less full");
    return true;
  }
  if (host.memory_pressure && *host.memory_pressure >= kPressureMatters) {
    conclude(Limit::kMemoryPressure, "memory limits", "");
    say_waiting();
    say(fmt::format("somebody waited for memory {} of the time", percent(*host.memory_pressure)));
    advise("less memory: a smaller memory_limit, batch or prefetch_factor, fewer processes");
    advise("read past the page cache (page_cache=\"drop\")");
    return true;
  }
  return false;
}

bool Judge::hands_over_often() const {
  return in_.batch_size > 0 &&
         in_.images_per_second >= kManyBatches * static_cast<double>(in_.batch_size);
}

bool Judge::cores_are_shared() const {
  return in_.decode && in_.decode->on_core_share && *in_.decode->on_core_share < kOwnCore;
}

/// Threads that are hardly busy lack a core for hardly any time, however small its share.
bool Judge::cores_explain_waiting() const {
  const auto threads = static_cast<double>(in_.decode->thread_count);
  const double lacking = threads * in_.decode->busy_share * (1 - *in_.decode->on_core_share);
  return lacking >= kLackMatters * in_.wait_share.value_or(0);
}

void Judge::advise_decode() {
  const auto rate = outlook_.decode_rate();
  const double threads = in_.decode ? static_cast<double>(in_.decode->thread_count) : 1;
  const double cores = std::floor(in_.usable_cores);
  if (cores > threads) {
    std::optional<double> more;
    if (rate) more = outlook_.with_decode(cores, *rate);
    advise(fmt::format("{:.0f} decode threads", cores), fmt::format("num_threads={:.0f}", cores),
           more);
  }
  if (in_.may_use_crop_index) {
    std::optional<double> indexed;
    if (const auto fast = outlook_.indexed_rate()) indexed = outlook_.with_decode(threads, *fast);
    advise("a crop index", "feedrace index PATH --crop-index", indexed);
  }
  if (in_.decodes_on_cpu) advise("decoding on a GPU, where there is one (device=\"cuda\")");
  if (cores <= threads) advise("more cores, or smaller pictures");
}

void Judge::decide_busy_decode() {
  const double other = in_.host.other_cpu_cores.value_or(0);
  if (cores_are_shared()) {
    const bool is_other = other >= kOthersMatter * in_.usable_cores;
    const auto threads = static_cast<double>(in_.decode->thread_count);
    const bool is_own = threads > std::ceil(in_.usable_cores);
    if (is_other && !is_own) {
      conclude(Limit::kNeighbour, "other processes limit", "decode");
    } else {
      conclude(Limit::kOversubscribed, "cores limit", "decode");
    }
    say_waiting();
    say(fmt::format("but on a core only {} of that time", percent(*in_.decode->on_core_share)));
    if (is_other) {
      say(fmt::format("other processes used {:.1f} of {} cores", other, in_.host.cpu_count));
    }
    if (is_own) {
      advise(fmt::format("no more decode threads than the {:.2g} cores", in_.usable_cores),
             fmt::format("num_threads={:.0f}", std::ceil(in_.usable_cores)));
    }
    if (is_other && !is_own) {
      const auto rate = outlook_.decode_rate();
      std::optional<double> alone;
      if (rate) alone = outlook_.with_decode(std::min(threads, in_.usable_cores), *rate);
      advise("cores of its own (taskset, a cpuset, or stopping what else runs)", {}, alone);
    } else if (!is_own) {
      advise(
          "fewer threads in this process: the training loop's take the cores too "
          "(torch.set_num_threads)");
    }
    return;
  }
  conclude(Limit::kDecode, "decode limits", "decode");
  say_waiting();
  say_swing();
  advise_decode();
}

void Judge::advise_reads_in_flight() {
  const double window = static_cast<double>(in_.prefetch_factor * in_.batch_size);
  const double flight = outlook_.reads_in_flight();
  const double most = std::min(window, static_cast<double>(in_.queue_depth));
  if (flight <= 0 || most <= 0) return;
  // The device has more to do than it can: one more only makes the line longer.
  if (in_.read_least_ms > 0 && in_.read_mean_ms > kInLine * in_.read_least_ms) return;
  // Few reads on their way, though the device would take more: the window is too short.
  if (window < static_cast<double>(in_.queue_depth)) {
    const std::optional<double> rate = outlook_.with_window(2);
    if (rate && *rate < in_.images_per_second * kWorthIt) return;  // The device has no more.
    advise("decoding further ahead", fmt::format("prefetch_factor={}", 2 * in_.prefetch_factor),
           rate);
  } else if (flight >= 0.7 * most && flight < kMostInFlight) {
    advise(fmt::format("more reads in flight (queue_depth={})", 2 * in_.queue_depth));
  }
}

void Judge::decide_storage() {
  const host::HostRates& host = in_.host;
  // However long a read takes: many copies at a time wait for each other.
  const bool is_cached = in_.cached_share && *in_.cached_share >= kMostlyCached;
  if (in_.io && !in_.reads_only && in_.io->busy_share < kSaturated && hands_over_often()) {
    return decide_batch_overhead();
  }
  if (in_.io && !in_.reads_only && in_.io->busy_share < kReadsMatter) {
    // While the others wait for a slow sample, one thread is busy with it.
    const double decoding =
        in_.decode ? in_.decode->busy_share * static_cast<double>(in_.decode->thread_count) : 0;
    if (decoding < kOneIsBusy * in_.wait_share.value_or(0)) return decide_batch_overhead();
    conclude(Limit::kSlowSamples, "a few slow samples limit", "");
    say_waiting();
    say("reads were hardly waited for");
    advise("look for pictures far larger than the rest (feedrace verify PATH)");
    advise(fmt::format("decode further ahead (prefetch_factor={})", 2 * in_.prefetch_factor));
    return;
  }
  if (is_cached) {
    conclude(Limit::kMemoryCopies, "reading out of memory limits", "storage");
    say_waiting();
    say(fmt::format("{} of the bytes came out of {}, no disk is waited for",
                    percent(*in_.cached_share),
                    in_.has_shared_cache ? "the shared cache" : "the page cache"));
    if (in_.are_files) {
      advise("pack small files into shards: fewer calls", "feedrace pack PATH DIR");
    } else {
      advise(
          "reads past the page cache (backend=\"direct\"), where the drive gives more than copies",
          "feedrace bench io PATH");
    }
    return;
  }
  if (in_.is_direct && (in_.is_gpu_far || in_.compat_share > 0.5)) {
    conclude(Limit::kGpuTopology, "the way from the drive to the GPU limits", "storage");
    say_waiting();
    if (in_.is_gpu_far) say(fmt::format("GPU and drive are connected {}", in_.gpu_path));
    if (in_.compat_share > 0.5) {
      say(fmt::format("{} of the bytes went through host memory after all",
                      percent(in_.compat_share)));
    }
    say_reads();
    advise("a GPU and a drive below one PCIe switch or root port", "feedrace doctor PATH");
    return;
  }
  const auto& disk = host.disk;
  const double own = in_.read_bytes_per_second * (1 - in_.cached_share.value_or(0));
  const double foreign =
      disk && disk->bytes_a_second > 0 ? std::max(0.0, 1 - own / disk->bytes_a_second) : 0;
  if (foreign >= kForeignReads) {
    conclude(Limit::kSharedDevice, "a shared device limits", "storage");
    say_waiting();
    say(fmt::format("others read {} of what {} gave", percent(foreign), disk->name));
    say_reads();
    advise("one reader for all processes of this machine", "shared_cache=\"20GB\"");
    advise("a drive for each, or GPUDirect Storage with a drive for each GPU");
    return;
  }
  if (in_.are_files && in_.mean_read_bytes > 0 && in_.mean_read_bytes < kSmallFileBytes) {
    conclude(Limit::kSmallFiles, "small files limit", "storage");
    say_waiting();
    say_reads();
    std::optional<double> packed;
    if (in_.ceilings.packed) packed = outlook_.with_storage(*in_.ceilings.packed);
    advise("shards", "feedrace pack PATH DIR", packed);
    advise_reads_in_flight();
    return;
  }
  conclude(Limit::kStorage, "storage limits", "storage");
  say_waiting();
  say_reads();
  advise_reads_in_flight();
  advise("faster storage, or a copy on a local drive");
  if (!in_.are_files) advise("neighbours in one read (shuffle=\"window\")");
}

void Judge::decide() {
  if (decide_early() || decide_host()) return;
  const bool is_decode_busy =
      in_.decode ? in_.decode->busy_share >= kSaturated
                 : in_.host.cpu_busy_share && *in_.host.cpu_busy_share >= kSaturated;
  // Threads without a core are not always busy: work comes from others that have none either.
  const bool lack_cores =
      cores_are_shared() && cores_explain_waiting() && in_.io && in_.io->busy_share < kReadsMatter;
  if ((is_decode_busy || lack_cores) && !in_.reads_only) return decide_busy_decode();
  decide_storage();
}

}  // namespace

Verdict judge(const Facts& facts) { return Judge(facts).run(); }

}  // namespace feedrace::verdict
