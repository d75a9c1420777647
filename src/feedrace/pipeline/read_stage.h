// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "feedrace/order/epoch_order.h"
#include "feedrace/pipeline/assembly.h"
#include "feedrace/pipeline/file_cache.h"
#include "feedrace/pipeline/read_counters.h"
#include "feedrace/pipeline/stage_clock.h"

namespace feedrace::pipeline {

/// One sample on its way from the reader to a decode thread.
struct DecodeTask {
  std::shared_ptr<PendingBatch> batch;
  std::size_t index = 0;  ///< Place in the batch.
  order::Pick pick;
  Extent extent;  ///< Keeps `encoded` alive.
  std::span<const std::byte> encoded;
  std::optional<Failure> failure;  ///< Set instead of `encoded` when the read failed.
};

struct ReadOptions {
  std::size_t queue_depth = 0;
  std::shared_ptr<const order::SampleOrder> order;
  order::SplitOptions split;
  std::uint64_t first_epoch = 0;
  std::uint64_t first_position = 0;    ///< In the first epoch.
  std::uint64_t max_sample_bytes = 0;  ///< A larger sample is a bad one: it would break the limit.
};

/// The I/O stage: one thread that walks the order, epoch after epoch, and keeps `queue_depth` reads
/// in flight. It hands each sample to the decode queue as its bytes arrive. Samples that lie side
/// by side in a shard and follow each other in the order share one read.
///
/// `run()` belongs to one thread; `interrupt()` and `in_flight()` may be called from any.
class ReadStage {
 public:
  ReadStage(const formats::Dataset& dataset, std::unique_ptr<storage::Backend> backend,
            std::shared_ptr<BufferPool> buffers, Assembly& assembly,
            BoundedQueue<DecodeTask>& output, ReadCounters& counters, StageClock& clock,
            const ReadOptions& options);
  ~ReadStage();

  /// Returns when `stop` is requested. Throws only on defects (no memory).
  void run(const std::stop_token& stop);
  void interrupt() noexcept { backend_->interrupt(); }

  struct Waiting {
    std::uint64_t sample = 0;
    double seconds = 0;
  };
  /// Reads that have not come back, longest first.
  std::vector<Waiting> in_flight() const;

 private:
  /// A sample's place in its batch.
  struct Seat {
    std::shared_ptr<PendingBatch> batch;
    std::size_t index = 0;
    order::Pick pick;
    formats::Place place;
  };
  /// One read: of one or several samples, not submitted yet or in flight.
  struct Read {
    std::vector<Seat> seats;
    std::string path;                     ///< Of a whole-file read.
    std::shared_ptr<storage::File> file;  ///< Of a range read.
    std::uint64_t offset_bytes = 0;
    std::size_t size_bytes = 0;
    BufferPool::Lease lease;
    Clock::time_point started;
  };

  bool is_idle() const noexcept { return in_flight_count_ == 0; }
  void walk(const std::stop_token& stop);
  void settle() noexcept;
  bool fill(const std::stop_token& stop);
  bool drain(const std::stop_token& stop);
  std::optional<Seat> next_seat(const std::stop_token& stop, bool may_wait);
  bool open_next_batch(const std::stop_token& stop, bool may_wait);
  std::optional<Read> next_read(const std::stop_token& stop, bool may_wait);
  std::optional<Read> read_of(Seat seat);
  void join_neighbours(Read& read);
  bool take_buffer(Read& read, const std::stop_token& stop, bool may_wait);
  void place_in_flight(Read read);
  bool complete(storage::Completion& completion, const std::stop_token& stop);
  bool read_again_whole(Read read);
  void split(Read read);
  bool deliver(Read read, std::size_t bytes_read);
  bool fail(Read read, const Failure& failure);
  bool push(DecodeTask task);

  const formats::Dataset& dataset_;
  const std::unique_ptr<storage::Backend> backend_;
  const std::shared_ptr<BufferPool> buffers_;
  Assembly& assembly_;
  BoundedQueue<DecodeTask>& output_;
  ReadCounters& counters_;
  StageClock& clock_;
  const ReadOptions options_;
  FileCache files_;

  // Where the walk stands.
  std::shared_ptr<const order::EpochOrder> order_;
  std::uint64_t number_ = 0;             // Of the next batch to open.
  std::shared_ptr<PendingBatch> batch_;  // The one whose places are being given out.
  std::size_t index_ = 0;
  std::optional<Seat> held_seat_;  // Given out but not read: it did not join its neighbour.
  std::optional<Read> held_read_;  // Waits for a buffer.
  std::deque<Read> retries_;       // Reads that must be made again, alone or larger.

  mutable std::mutex mutex_;
  std::vector<std::optional<Read>> slots_;  // Guarded by mutex_. By `user_data` of the request.
  std::vector<std::size_t> free_slots_;
  std::vector<storage::ReadRequest> requests_;  // Placed in flight, to be submitted together.
  std::size_t in_flight_count_ = 0;
};

}  // namespace feedrace::pipeline
