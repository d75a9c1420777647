// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace feedrace {

/// The way a byte really took from the store to host memory.
enum class Path : std::uint8_t {
  kPageCache,  ///< Through the kernel's page cache: one CPU copy.
  kUncached,   ///< Likewise, but the pages are given up behind the read (RWF_DONTCACHE, fadvise).
  kDirect,     ///< O_DIRECT into our buffer: no CPU copy.
  kGds,        ///< GPUDirect Storage into device memory.
  kGdsCompat,  ///< cuFile's compatibility mode: through host memory after all.
  kNetwork,    ///< HTTP or S3.
  kMemory,     ///< Made up in memory (null back end, tests).
};
inline constexpr std::size_t kPathCount = 7;

/// As JSON spells it: "page_cache".
const char* to_string(Path path) noexcept;

/// CPU copies of each byte on its way into the loader's buffer, by the path that it took.
std::size_t copies_of(Path path) noexcept;

/// A latency distribution. Log-linear: 16 buckets for each power of two of nanoseconds, so a
/// quantile is at most 6.25 % above the true value. Fixed size, no allocation; not thread-safe.
class LatencyHistogram {
 public:
  static constexpr std::size_t kSubBuckets = 16;
  static constexpr std::size_t kBucketCount = (64 - 4 + 1) * kSubBuckets;

  void record(std::uint64_t nanoseconds) noexcept;
  void merge(const LatencyHistogram& other) noexcept;
  /// What was recorded since this histogram was as `earlier` is; its maximum is that of both.
  LatencyHistogram since(const LatencyHistogram& earlier) const noexcept;

  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t max_ns() const noexcept { return max_; }
  std::uint64_t sum_ns() const noexcept { return sum_; }
  /// Upper edge of the bucket that holds quantile `q` of [0, 1], capped by the largest value seen;
  /// 0 when nothing was recorded.
  std::uint64_t quantile_ns(double q) const noexcept;
  /// Values of at most `ns`, where a bucket ends there, as one does at 2^k - 1; else those of the
  /// buckets that end before it.
  std::uint64_t count_up_to_ns(std::uint64_t ns) const noexcept;

 private:
  std::array<std::uint64_t, kBucketCount> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t max_ = 0;
};

/// Something that was wanted and could not be had, and how often.
struct FallbackCount {
  std::string sentence;     ///< What was wanted, why not, what is used instead, what to do.
  std::uint64_t count = 0;  ///< Reads, or attempts, that it concerned.
};

/// A cache of encoded samples that processes share; counts of questions are this process's own.
struct CacheStats {
  std::uint64_t hits = 0;          ///< Samples that were there: no byte was read.
  std::uint64_t misses = 0;        ///< Read by this process, and kept.
  std::uint64_t full = 0;          ///< Read, and not kept: the limit is reached.
  std::uint64_t busy = 0;          ///< Another process was reading it: asked again.
  std::uint64_t entries = 0;       ///< Samples kept, by all processes.
  std::uint64_t filled_bytes = 0;  ///< Their bytes.
  std::uint64_t limit_bytes = 0;
};

/// What a GPU got and did, where batches are delivered to one.
struct DeviceStats {
  std::uint64_t copied_bytes = 0;      ///< From host memory to the device.
  std::uint64_t hardware_decoded = 0;  ///< Pictures, by the device's JPEG engine.
  std::uint64_t software_decoded = 0;  ///< Pictures, by nvJPEG on the device's cores.
  std::uint64_t host_decoded = 0;      ///< Pictures whose tensors the CPU made.
  std::uint64_t already_decoded = 0;   ///< Pictures whose pixels were copied to the device's pass.
  std::uint64_t slots = 0;             ///< Batches that there is device memory for.
};

/// JPEG pictures that were decoded on the CPU, by who did it.
struct JpegStats {
  std::uint64_t feedrace = 0;       ///< By our own decoder, from the first row to the last.
  std::uint64_t libjpeg_turbo = 0;  ///< By libjpeg-turbo: of a kind that ours leaves to it, or all.
  std::uint64_t damaged = 0;  ///< By ours as far as it could vouch for, then by libjpeg-turbo.
  /// Why the last one went to libjpeg-turbo: "progressive"; null: none did, or all shall.
  const char* kind = nullptr;
};

/// What one stage did since the loader was made.
struct StageStats {
  std::string name;  ///< "io", "decode", "consumer".
  std::size_t thread_count = 0;
  double busy_seconds = 0;       ///< Working, summed over its threads.
  double wait_seconds = 0;       ///< Waiting for input, output room or a slot, likewise.
  double cpu_seconds = 0;        ///< Of the busy ones, those on a core; 0 where it is not measured.
  std::uint64_t item_count = 0;  ///< Samples (io, decode) or batches (consumer).
};

/// How full a queue between two stages is.
struct QueueLevel {
  std::string name;          ///< "reads in flight", as in a trace.
  std::uint64_t length = 0;  ///< In what it holds.
};

/// Counters since the loader was made. A snapshot: plain data, safe to keep. What was read ahead
/// and not delivered yet counts in bytes, reads and stages, not in samples.
struct Stats {
  double seconds = 0;                     ///< Since the loader was made.
  std::uint64_t samples = 0;              ///< Delivered to the consumer, padding excluded.
  std::uint64_t batches = 0;              ///< Delivered to the consumer.
  std::uint64_t bad_samples = 0;          ///< Could not be read or decoded.
  std::uint64_t substituted_samples = 0;  ///< Replaced by another one (`on_error=replace`).
  std::uint64_t blanked_samples = 0;      ///< Delivered as zeros (`on_error=zero`).
  std::uint64_t padded_samples = 0;       ///< Repeats that fill a batch (`last_batch=pad`).
  std::uint64_t flagged_samples = 0;      ///< Delivered although the decoder complained.
  std::uint64_t crop_indexed = 0;         ///< Pictures decoded from their crop index.
  std::uint64_t crop_index_refused = 0;   ///< Pictures whose crop index did not fit.
  std::uint64_t extra_slots = 0;          ///< Batch slots made because the consumer keeps batches.
  std::array<std::uint64_t, kPathCount> bytes_by_path{};  ///< Bytes read, indexed by `Path`.
  std::uint64_t reads = 0;                                ///< Read requests that completed.
  LatencyHistogram read_latency;                          ///< From submission to completion.
  std::optional<CacheStats> shared_cache;                 ///< Nothing: none is used.
  std::optional<DeviceStats> device;                      ///< Nothing: batches stay in host memory.
  JpegStats jpeg;                                         ///< Stand-ins of bad samples included.
  std::vector<StageStats> stages;
  std::string backend;                   ///< Name of the storage back end in use.
  std::vector<FallbackCount> fallbacks;  ///< All of them; the same sentence stands once.
  std::vector<std::string>
      complaints;  ///< The first few flagged samples: where, and what the decoder said.

  /// CPU copies per byte between the store and the decoder's input; 0 before the first read.
  double copies_per_byte() const noexcept;
};

}  // namespace feedrace
