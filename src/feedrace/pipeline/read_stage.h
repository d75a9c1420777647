// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/core/bounded_queue.h"
#include "feedrace/core/buffer_pool.h"
#include "feedrace/format.h"
#include "feedrace/pipeline/assembly.h"
#include "feedrace/pipeline/cached_samples.h"
#include "feedrace/pipeline/extent_planner.h"
#include "feedrace/pipeline/file_cache.h"
#include "feedrace/pipeline/lookahead.h"
#include "feedrace/pipeline/read_counters.h"
#include "feedrace/pipeline/stage_clock.h"
#include "feedrace/storage/fallback_log.h"
#include "feedrace/watch/trace.h"

namespace feedrace::pipeline {

/// One sample on its way from the reader to a decode thread.
struct DecodeTask {
  std::shared_ptr<PendingBatch> batch;
  std::size_t index = 0;  ///< Place in the batch.
  order::Pick pick;
  std::shared_ptr<const void> memory;  ///< Keeps `encoded` alive.
  std::span<const std::byte> encoded;
  std::optional<Failure> failure;  ///< Set instead of `encoded` when the read failed.
};

struct ReadOptions {
  Lookahead::Options order;
  std::size_t queue_depth = 0;
  std::uint64_t max_sample_bytes = 0;  ///< A larger sample is a bad one: it would break the limit.
  /// Of the pool's buffers, those for reads on their way, which are pinned; half of them are never
  /// given to bytes of samples that are not due yet, so that those that are due always find one.
  std::size_t base_buffers = 0;
  std::vector<std::size_t> cpus;  ///< To run on; empty: anywhere.
  /// Asked before each read; null: none. Samples do not share reads then: each is kept by itself.
  std::shared_ptr<storage::SharedCache> cache;
  watch::Tracing tracing;
};

/// The I/O stage of one device: a thread that walks the order, epoch after epoch, and keeps
/// `queue_depth` reads in flight. It hands each sample to the decode queue as its bytes arrive.
/// Samples that lie side by side in a shard and are due soon share one read.
///
/// `run()` belongs to one thread; `interrupt()` and `in_flight()` may be called from any.
class ReadStage {
 public:
  /// Called once, in the reader's thread.
  using MakeBackend = std::function<std::unique_ptr<storage::Backend>()>;

  ReadStage(const formats::Dataset& dataset, MakeBackend make_backend,
            std::shared_ptr<BufferPool> buffers, Assembly& assembly,
            BoundedQueue<DecodeTask>& output, ReadCounters& counters, StageClock& clock,
            storage::FallbackLog& fallbacks, ReadOptions options);
  ~ReadStage();

  /// Returns when `stop` is requested. Throws what making a back end throws, else only on defects
  /// (no memory).
  void run(const std::stop_token& stop);
  /// Ends a wait for the storage, so that a stop or room for another batch is seen at once.
  void interrupt() noexcept;

  struct Waiting {
    std::uint64_t sample = 0;
    double seconds = 0;
  };
  /// Reads that have not come back, and an open that has not, longest first.
  std::vector<Waiting> in_flight() const;
  std::size_t in_flight_count() const noexcept { return in_flight_count_; }

 private:
  /// Completions taken from the back end at a time, and samples handed on.
  static constexpr std::size_t kHarvest = 32;

  /// One read: of one or several samples, not submitted yet or in flight.
  struct Read {
    std::vector<std::uint64_t> tickets;   ///< The first one is due.
    std::uint64_t sample = 0;             ///< Of the first one.
    std::string path;                     ///< Of a whole-file read.
    std::shared_ptr<storage::File> file;  ///< Of a range read.
    std::uint64_t offset_bytes = 0;
    std::size_t size_bytes = 0;
    BufferPool::Lease lease;
    std::optional<CachedSamples::Sought> sought;  ///< Read into the cache: a claim of it.
    Clock::time_point started;
  };

  static Failure too_large(std::uint64_t bytes, std::uint64_t limit);
  bool is_idle() const noexcept { return in_flight_count_ == 0; }
  void open_backend();
  void notice(const Seat& seat);
  void walk(const std::stop_token& stop);
  void settle() noexcept;

  // Choosing what to read.
  bool fill(const std::stop_token& stop);
  bool prepare_read(const std::stop_token& stop, bool may_wait);
  std::optional<Read> next_read(const std::stop_token& stop, bool may_wait);
  std::optional<Read> read_of(Seat& seat);
  enum class Lookup { kDone, kRead, kLater, kNotCached };
  Lookup look_up(Seat& seat, Read& read);
  std::optional<Read> ask_again();
  Result<std::shared_ptr<storage::File>> open_shard(const Seat& seat);
  void note_opening(std::optional<std::uint64_t> sample);
  std::optional<Read> read_of_file(Seat& seat);
  std::optional<Read> read_of_range(Seat& seat);
  bool take_buffer(Read& read, const std::stop_token& stop, bool may_wait);
  void place_in_flight(Read read);

  // Handing on what has come.
  bool drain(const std::stop_token& stop);
  void complete(storage::Completion& completion, const std::stop_token& stop);
  void read_again_whole(Read read);
  void read_apart(const Read& read);
  void deliver_file(Read read, std::size_t bytes_read);
  void deliver_range(Read read, std::size_t bytes_read);
  void deliver_cached(Read read, std::size_t bytes_read);
  void deliver_held(Seat& seat, const HeldBytes& held);
  void fail(Seat& seat, const Failure& failure);
  void push(Seat& seat, DecodeTask task);
  Clock::time_point trace_begun_batches(Clock::time_point came);
  bool hand_on();

  const formats::Dataset& dataset_;
  const MakeBackend make_backend_;
  const std::shared_ptr<BufferPool> buffers_;
  BoundedQueue<DecodeTask>& output_;
  ReadCounters& counters_;
  StageClock& clock_;
  storage::FallbackLog& fallbacks_;
  const ReadOptions options_;
  ExtentPlanner planner_;
  Lookahead lookahead_;

  std::unique_ptr<storage::Backend> backend_;  // Set under mutex_.
  std::optional<FileCache> files_;
  std::optional<CachedSamples> cached_;
  struct Busy {
    std::uint64_t ticket = 0;  // Due.
    Clock::time_point since;
  };
  std::deque<Busy> busy_;            // Samples that another process is reading.
  std::vector<DecodeTask> tasks_;    // On their way to the decode queue.
  std::optional<Read> held_read_;    // Waits for a buffer.
  std::deque<Read> retries_;         // Reads that must be made again, larger.
  std::deque<std::uint64_t> apart_;  // Tickets, due, that are to be read alone.

  mutable std::mutex mutex_;
  std::optional<std::uint64_t> opening_;    // Guarded by mutex_. Sample whose file is being opened.
  Clock::time_point opening_since_;         // Guarded by mutex_.
  std::vector<std::optional<Read>> slots_;  // Guarded by mutex_. By `user_data` of the request.
  std::vector<std::size_t> free_slots_;
  std::vector<storage::ReadRequest> requests_;    // Placed in flight, to be submitted together.
  std::atomic<std::size_t> in_flight_count_ = 0;  // Changed by the reader's thread alone.
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t traced_batch_ = ~std::uint64_t{0};  // The last one that was marked as read.
};

}  // namespace feedrace::pipeline
