// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/decoder.h"
#include "feedrace/format.h"
#include "feedrace/order.h"
#include "feedrace/pipeline.h"
#include "feedrace/ranks.h"
#include "feedrace/stats.h"
#include "feedrace/tensor.h"
#include "feedrace/verdict.h"

namespace feedrace {

/// Reads in flight; more than the drive's own queue only adds latency.
inline constexpr std::size_t kDefaultQueueDepth = 32;
/// Batches being made or ready ahead of the consumer.
inline constexpr std::size_t kDefaultPrefetchFactor = 3;
/// The pool of read buffers: at least 64 x 256 KiB = 16 MiB. An ImageNet JPEG is 110 KB on average.
inline constexpr std::size_t kDefaultBufferCount = 64;
inline constexpr std::size_t kDefaultBufferBytes = std::size_t{256} << 10;
/// From this many usable cores up, two are left to the I/O thread and the consumer.
inline constexpr std::size_t kCoresBeforeReserve = 8;
inline constexpr std::size_t kReservedCores = 2;

using storage::PageCache;

enum class OnError : std::uint8_t {
  kRaise,    ///< `next()` throws at the first sample that cannot be read or decoded.
  kReplace,  ///< Another sample, fixed by (seed, epoch, sample), takes its place.
  kZero,     ///< A blank picture takes its place.
};

enum class Fallback : std::uint8_t {
  kWarn,   ///< Use the next best way; say so in plan and statistics.
  kError,  ///< Refuse, with the reason; reads that would take another path fail.
};

enum class CropIndexes : std::uint8_t {
  kAuto,  ///< Where a picture has one, its crop is decoded from it, but not by libjpeg-turbo.
  kOff,
};

/// A data set to draw from, and which part of it.
struct DataSource {
  /// In plans, messages and states; empty: the first of `sources`. Several sets need different
  /// names.
  std::string name;
  /// A folder of class folders, tar shards (file, folder, glob or brace pattern) or a list.
  std::vector<std::string> sources;
  formats::OpenOptions format;
  /// A data set of one's own instead of `sources`.
  std::shared_ptr<const formats::Dataset> dataset;
  /// Number the samples as the data set of these sources does, matched by key: an order that was
  /// saved over a folder goes on over shards that hold its samples in another order. Takes 8 bytes
  /// a sample. Empty: as stored.
  std::vector<std::string> number_like;
  Subset subset;
  /// Passes over it in an epoch, each in another order; at most a million.
  std::uint64_t repeat = 1;
  /// Above 0 for all sets: samples are mixed in these proportions. 0 for all: one set after
  /// another.
  double weight = 0;
};

/// Memory in which the processes of one user on one machine keep encoded samples together, so that
/// each byte is read from the device once, by whichever rank comes first.
struct SharedCache {
  /// Samples that do not fit are read each time; nothing is thrown out for them. At least 1 MiB, at
  /// most half of the free memory. It is reserved at once, about half a second a GB.
  std::uint64_t limit_bytes = 0;
  /// 1 to 64 of [A-Za-z0-9._-]; the same name is the same cache. Empty: the data set's fingerprint.
  std::string name;
  std::string folder = "/dev/shm";
};

struct LoaderOptions {
  /// One data set, as in `DataSource`; or several in `sets`, which then stand instead.
  std::vector<std::string> sources;
  formats::OpenOptions format;
  std::shared_ptr<const formats::Dataset> dataset;
  std::vector<std::string> number_like;
  Subset subset;
  std::uint64_t repeat = 1;
  std::vector<DataSource> sets;
  /// Samples of an epoch when sets are mixed by weight; 0: as many as all sets have together.
  std::uint64_t epoch_samples = 0;

  Pipeline pipeline = Pipeline::recipe("imagenet-train");
  /// Fields of the samples, besides image and label, that come along with each batch as they are
  /// stored: "json", "txt"; "txt?" when samples may lack it. Tar shards only.
  std::vector<std::string> fields;
  std::size_t batch_size = 64;
  /// Not set: by the pipeline and the sources, never by a measurement. A pipeline that crops at
  /// random is for training and shuffles: `kGlobal`, but `kWindow` over the network (a source that
  /// begins with a scheme such as "s3://"). Another one is for validation and keeps the order.
  std::optional<Shuffle> shuffle;
  std::uint64_t shuffle_chunk = kDefaultShuffleChunk;    ///< Samples, for `kWindow`.
  std::uint64_t shuffle_window = kDefaultShuffleWindow;  ///< Samples, for `kWindow`.
  std::uint64_t seed = 0;
  /// Not set: `kDrop` when shuffling, else `kPartial`, on several ranks `kPad`.
  std::optional<LastBatch> last_batch;
  /// Which process of how many this is. Neither set: from the environment of torchrun, Open MPI,
  /// MPICH, MVAPICH2 or SLURM, else the only one. `batch_size` is of one rank.
  std::optional<std::uint64_t> rank;
  std::optional<std::uint64_t> world_size;
  /// Not set: ranks are not compared.
  std::optional<RankCheck> rank_check;
  std::size_t thread_count = 0;  ///< Decode threads; 0: see `Plan`.
  std::size_t prefetch_factor = kDefaultPrefetchFactor;
  std::size_t queue_depth = kDefaultQueueDepth;
  /// "auto": the way with the least copies and CPU time that the machine has, and the plan says
  /// why; "uring": io_uring; "direct": O_DIRECT on threads; "buffered": the page cache on threads.
  /// "cufile": raw samples, or decoded pictures in shards, go straight into a GPU's memory
  /// (GPUDirect Storage); needs `device`.
  std::string backend = "auto";
  PageCache page_cache = PageCache::kAuto;
  /// Not set: none.
  std::optional<SharedCache> shared_cache;
  /// A thread of the kernel submits the reads, and takes a core. Not set: with 8 cores to spare.
  std::optional<bool> sqpoll;
  /// Polls the device for completions instead of waiting for interrupts; needs O_DIRECT and a drive
  /// with polled queues.
  bool iopoll = false;
  Fallback fallback = Fallback::kWarn;
  /// Pixels do not depend on it; what `feedrace index --crop-index` made.
  CropIndexes crop_index = CropIndexes::kAuto;
  OnError on_error = OnError::kRaise;
  /// Bad samples that are tolerated in an epoch: a count; above it `next()` throws.
  std::uint64_t error_budget = ~std::uint64_t{0};
  /// The same as a share of the epoch's samples, in [0, 1].
  double error_budget_share = 1.0;
  std::string quarantine_file;           ///< JSON lines of bad samples; empty: none.
  std::uint64_t memory_limit_bytes = 0;  ///< 0: half of what the machine has free.
  /// Where batches are delivered: "cpu", "cuda" (GPU 0), "cuda:1", or "auto": GPU 0 where one can
  /// be used, else the host's memory, and the plan says why. Needs libfeedrace_cuda.so.
  std::string device = "cpu";
  /// Where JPEG pictures of a batch that goes to a GPU are decoded: "cuda": there (nvJPEG, then one
  /// fused pass), "cpu", or "auto": there where nvJPEG is and the pipeline is one fused pass, else
  /// on the CPU, and the plan says why. What nvJPEG refuses is decoded on the CPU in any case,
  /// counted.
  std::string decode_device = "auto";
  /// Of the encoded bytes of a batch, for the GPU's JPEG engine, where it has one; in [0, 1].
  double hardware_share = 0.65;
  /// Who decodes JPEG on the CPU. Pixels do not depend on it.
  decode::JpegEngine jpeg_engine = decode::JpegEngine::kFeedrace;
  /// libfeedrace_cuda.so or its folder; empty: beside this library, then as the system finds it.
  std::vector<std::string> cuda_plugin;
  /// Folders with NVIDIA's libraries, before the system's places.
  std::vector<std::string> cuda_libraries;
  /// For tests: goes before /proc, /run and /dev where cuFile's ground is looked at.
  std::string system_root;
  /// Where metrics are served for Prometheus, "[ADDRESS:]PORT": "9400" is the loopback's,
  /// "0.0.0.0:9400" is for everybody who reaches this machine, port 0 is any that is free. Empty:
  /// nowhere.
  std::string metrics;
  /// Whether `feedrace top` of this user finds the loader while its threads run.
  bool has_live_socket = true;
  double timeout_seconds = 300;            ///< Of one `next()`; 0: none.
  std::uint64_t max_pixels = 178'956'970;  ///< A larger picture is a bad sample.

  /// Called about twenty times a second while `next()` waits, on its thread. What it throws leaves
  /// `next()`, and the loader may be asked again.
  std::function<void()> while_waiting;

  /// For tests and for stores of one's own: makes a back end instead of `backend`. Called once for
  /// each thread that reads.
  std::function<std::unique_ptr<storage::Backend>()> backend_factory;
};

/// What will happen, known before the first read. Plain data.
struct Plan {
  std::string dataset_kind;
  std::uint64_t sample_count = 0;  ///< Of the data sets, before any subset.
  std::size_t shard_count = 0;
  std::size_t class_count = 0;
  std::string label_source;  ///< "class folders", "cls field", "none: every label is -1".
  /// One for each data set.
  struct Set {
    std::string name;
    std::uint64_t sample_count = 0;
    std::uint64_t selected_count = 0;  ///< By its subset.
    std::string subset;                ///< "all", or what is chosen.
    std::uint64_t repeat = 1;
    double weight = 0;
    double epoch_share = 0;  ///< Of an epoch's samples, in [0, 1].
  };
  std::vector<Set> sets;
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  std::string world_source;           ///< Where rank and world size were learnt.
  std::uint64_t epoch_samples = 0;    ///< Of all ranks.
  std::uint64_t steps = 0;            ///< Batches an epoch, the same on each rank.
  std::uint64_t samples_a_rank = 0;   ///< An epoch, with repeats.
  std::uint64_t last_batch_size = 0;  ///< Of the last batch of an epoch.
  std::uint64_t dropped_samples = 0;  ///< An epoch, of all ranks, by `last_batch=drop`.
  std::uint64_t padded_samples = 0;   ///< An epoch, of all ranks, by `last_batch=pad` or `fill`.
  LastBatch last_batch = LastBatch::kDrop;
  std::size_t batch_size = 0;  ///< Of each rank.
  std::string pipeline;
  std::vector<std::string> unfused;  ///< A sentence for each step that is not fused, and why.
  std::vector<std::string> fields;   ///< That come along with the images.
  std::string backend;
  std::string backend_reason;        ///< Why this one, in one line.
  std::string device;                ///< "cpu", or "cuda:0".
  std::string device_reason;         ///< Why this one, in one line; empty when it was named.
  std::string decode_device;         ///< Where pictures are decoded: "cpu", "cuda:0".
  std::string decode_device_reason;  ///< Why there, in one line; empty when it was named.
  std::string jpeg_engine;           ///< Who decodes JPEG on the CPU: "feedrace", "libjpeg-turbo".
  std::string shared_cache;          ///< Where it lies and how large it may be; empty: none.
  /// Of how many pictures there is one, and why none is used, if so; empty: there is none.
  std::string crop_index;
  std::size_t reader_threads = 1;  ///< One a device.
  std::size_t decode_threads = 0;
  std::size_t usable_cores = 0;
  std::size_t queue_depth = 0;
  std::size_t prefetch_factor = 0;
  std::string order;  ///< "global shuffle, seed 0".
  /// How well the order mixes: 1 when a step draws from as many stretches of the stored order as a
  /// random one would, near 0 in the stored order; see `mixing_text`.
  double mixing = 0;
  std::string mixing_text;  ///< "97 % of random: 256 samples in a row come from 157 of ...".
  std::string on_error;
  std::uint64_t batch_slot_bytes = 0;  ///< All slots of the plan.
  std::uint64_t read_buffer_bytes = 0;
  std::uint64_t decode_scratch_bytes = 0;  ///< All threads, for pictures of ordinary size.
  std::uint64_t other_bytes = 0;           ///< The process itself before the loader was made.
  std::uint64_t memory_bytes = 0;          ///< The sum: anonymous memory of the process.
  std::uint64_t memory_limit_bytes = 0;
  std::string fingerprint;  ///< Of the data set.
  std::vector<std::string> warnings;

  std::string to_text() const;  ///< Several lines for a person.
  std::string to_json() const;
};

/// Batches from storage. One consumer thread calls `next()`; `cancel()` and `stats()` may be called
/// from any thread. The library never prints and installs no signal handler.
class Loader {
 public:
  /// Opens the data set, checks everything, makes the plan; no thread but that of metrics starts
  /// and nothing of the samples is read before the first `next()`, but of raw samples without a
  /// dtype or shape the first one. Throws Error.
  explicit Loader(LoaderOptions options);
  /// Cancels, joins all threads. In a forked child it frees nothing and joins nobody.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Plan& plan() const noexcept;
  const formats::Dataset& dataset() const noexcept;

  /// The next batch, or nothing at the end of the epoch; the call after that begins the next one.
  /// Throws Error: a sample's failure (`on_error=raise`), the budget spent, the memory limit
  /// reached, the time-out (names the reads waited for), a stage that ended by an exception,
  /// kCancelled after `cancel()`, or a call in a forked child. After an Error of a sample or of a
  /// stage every further call throws the same.
  std::optional<Batch> next();

  /// Begins epoch `epoch` anew with the next `next()`. Right after `load_state`, the epoch of the
  /// state keeps its position. Throws Error kInvalidArgument for an epoch of 2^40 or more (-1).
  void set_epoch(std::uint64_t epoch);
  /// The epoch of the next batch: at the end of an epoch, when `next()` gives nothing, already the
  /// following one. `while (loader.epoch() < 90)` ends at the same place, stopped or not.
  std::uint64_t epoch() const noexcept;

  /// Where the loader stands, as one line of JSON of about a kilobyte: behind the last batch that
  /// `next()` gave; what is read ahead does not count. The same on every rank, but for the count of
  /// bad samples. Call it on the consumer's thread.
  std::string state() const;
  /// The state right behind `batch`, one of this loader's: for a consumer that itself runs ahead.
  std::string state_after(const Batch& batch) const;
  /// The state right before `batch`, one of this loader's: for a consumer that could not use it.
  std::string state_before(const Batch& batch) const;
  /// Goes on from a state: the next batch is the one that would have followed, whatever the number
  /// of threads, the back end, the world size, the batch size, or whether the samples lie in a
  /// folder or in shards. Costs the same at any position. Returns what differs and is allowed to,
  /// one sentence each. Throws Error kInvalidArgument when the state is damaged, newer, or of other
  /// data or settings, with both values; then nothing has changed.
  /// `accept_changed_data`: go on all the same where the same number of samples has other content.
  std::vector<std::string> load_state(std::string_view state, bool accept_changed_data = false);

  Stats stats() const;
  /// How full the queues between the stages are at this moment; empty while no thread of the loader
  /// runs. Any thread.
  std::vector<QueueLevel> queue_levels() const;
  /// "127.0.0.1:9400": where metrics are served, by a thread that lives as long as the loader;
  /// empty: nowhere.
  std::string metrics_address() const;
  /// Why batches do not come faster: what limits the last half of the run or more, the evidence,
  /// what else could give how much, and what to do. Reads a few files of /proc. Any thread. Throws
  /// Error kInvalidArgument where the input is not what it should be.
  Verdict verdict(const VerdictInput& input = {}) const;
  /// The same in one line.
  std::string explain() const { return verdict().to_text(); }
  /// Seconds that whoever stands between this loader and the training loop took to hand a batch
  /// over, such as a language binding. Any thread.
  void note_handing(double seconds) noexcept;
  /// What is done to a sample, step by step, with the numbers drawn for it: a JSON list of objects.
  /// `pass` counts how often its data set was gone through before: the epoch, where a set is gone
  /// through once an epoch. Reads the sample. Throws Error: no such sample, one that can't be read.
  std::string trace_sample(std::uint64_t sample, std::uint64_t pass) const;
  /// Writes what every thread does to a file, for https://ui.perfetto.dev or chrome://tracing:
  /// stages one below the other, queue levels, and the way of each batch. Throws Error: a trace is
  /// being written already, the file can't be made. Call it on the consumer's thread.
  void start_trace(const std::string& path);
  /// Ends the file, as the destructor does. Does nothing when none is written. Throws Error kIo
  /// when it could not be written to its end. On the consumer's thread.
  void stop_trace();
  /// Ends all threads and gives memory back; what was read ahead is dropped. The next `next()`
  /// starts again and gives the batch that would have followed. For a consumer that rests, on its
  /// thread.
  void pause();
  /// Ends a `next()` that waits, and all stages; thread-safe.
  void cancel() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace feedrace
