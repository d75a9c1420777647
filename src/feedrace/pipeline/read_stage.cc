// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/read_stage.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace feedrace::pipeline {
namespace {

// Two samples share a read when what lies between them is less than a request costs anyway: tar
// headers, paddings, a label.
constexpr std::uint64_t kMaxGapBytes = 16 << 10;
// Completions taken from the back end at a time.
constexpr std::size_t kHarvest = 32;

Failure too_large(std::uint64_t bytes, std::uint64_t limit) {
  return {
      ErrorCode::kCorruptData,
      fmt::format("the sample has {} bytes and at most {} are read (the memory limit, and 1 GiB in "
                  "any case); take it out, or raise the memory limit",
                  bytes, limit)};
}

}  // namespace

ReadStage::ReadStage(const formats::Dataset& dataset, std::unique_ptr<storage::Backend> backend,
                     std::shared_ptr<BufferPool> buffers, Assembly& assembly,
                     BoundedQueue<DecodeTask>& output, ReadCounters& counters, StageClock& clock,
                     const ReadOptions& options)
    : dataset_(dataset),
      backend_(std::move(backend)),
      buffers_(std::move(buffers)),
      assembly_(assembly),
      output_(output),
      counters_(counters),
      clock_(clock),
      options_(options),
      files_(*backend_, FileCache::default_capacity()),
      order_(std::make_shared<order::EpochOrder>(options.order, options.split, options.first_epoch,
                                                 options.first_position)) {
  const std::size_t depth =
      std::max<std::size_t>(1, std::min(options.queue_depth, backend_->limits().max_in_flight));
  slots_.resize(depth);
  for (std::size_t i = depth; i > 0; --i) free_slots_.push_back(i - 1);
}

ReadStage::~ReadStage() = default;

void ReadStage::run(const std::stop_token& stop) {
  try {
    walk(stop);
  } catch (...) {
    settle();
    throw;
  }
  settle();
}

void ReadStage::walk(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (!fill(stop)) return;
    if (!is_idle() && !drain(stop)) return;
  }
}

/// The kernel owns the buffers until their reads come back, cancelled or not.
void ReadStage::settle() noexcept {
  in_flight_count_ -= requests_.size();  // Never submitted.
  requests_.clear();
  backend_->cancel_all();
  std::array<storage::Completion, kHarvest> done;
  while (!is_idle()) in_flight_count_ -= backend_->wait(done, 1);
  std::lock_guard lock(mutex_);
  for (std::optional<Read>& read : slots_) read.reset();
}

/// Keeps the queue full. Waits for room only when nothing is in flight: otherwise a completion may
/// be what makes room. False: the end.
bool ReadStage::fill(const std::stop_token& stop) {
  while (!free_slots_.empty() && !stop.stop_requested()) {
    const bool may_wait = is_idle();
    const auto start = Clock::now();
    if (!held_read_) held_read_ = next_read(stop, may_wait);
    const bool ready = held_read_ && take_buffer(*held_read_, stop, may_wait);
    if (may_wait) clock_.add_wait(nanoseconds_since(start));
    if (!ready) break;
    place_in_flight(std::move(*held_read_));
    held_read_.reset();
  }
  const auto start = Clock::now();
  // The slots are bounded by the back end's own limit, so it takes every request.
  backend_->submit(requests_);
  requests_.clear();
  clock_.add_busy(nanoseconds_since(start));
  return !stop.stop_requested();
}

bool ReadStage::drain(const std::stop_token& stop) {
  std::array<storage::Completion, kHarvest> done;
  const auto start = Clock::now();
  const std::size_t count = backend_->wait(done, 1);
  clock_.add_busy(nanoseconds_since(start));
  bool goes_on = true;  // Each one is taken back, also when an earlier one found the end.
  for (std::size_t i = 0; i < count; ++i) goes_on = complete(done[i], stop) && goes_on;
  return goes_on;
}

bool ReadStage::open_next_batch(const std::stop_token& stop, bool may_wait) {
  if (number_ == order_->split().steps) {
    order_ =
        std::make_shared<order::EpochOrder>(options_.order, options_.split, order_->epoch() + 1);
    number_ = 0;
  }
  batch_ = may_wait ? assembly_.open(order_, number_, stop) : assembly_.try_open(order_, number_);
  if (!batch_) return false;
  ++number_;
  index_ = 0;
  return true;
}

std::optional<ReadStage::Seat> ReadStage::next_seat(const std::stop_token& stop, bool may_wait) {
  if (held_seat_) return std::exchange(held_seat_, std::nullopt);
  if (!batch_ && !open_next_batch(stop, may_wait)) return std::nullopt;
  const order::Pick pick = batch_->order->pick(batch_->number, index_);
  Seat seat{batch_, index_, pick, dataset_.place(pick.sample)};
  if (++index_ == batch_->size) batch_.reset();
  return seat;
}

std::optional<ReadStage::Read> ReadStage::next_read(const std::stop_token& stop, bool may_wait) {
  if (!retries_.empty()) {
    Read read = std::move(retries_.front());
    retries_.pop_front();
    return read;
  }
  while (auto seat = next_seat(stop, may_wait)) {
    if (auto read = read_of(std::move(*seat))) {
      join_neighbours(*read);
      return read;
    }
    if (stop.stop_requested()) break;  // The failure could not be handed on.
  }
  return std::nullopt;
}

/// The read of one sample; nothing when its shard can't be opened, which is handed on as a failure.
std::optional<ReadStage::Read> ReadStage::read_of(Seat seat) {
  Read read;
  const formats::Place place = seat.place;
  if (place.shard == formats::Place::kOwnFile) {
    read.path = dataset_.path(seat.pick.sample);
    read.size_bytes = buffers_->buffer_bytes();
    read.seats.push_back(std::move(seat));
    return read;
  }
  read.seats.push_back(std::move(seat));
  if (place.size_bytes > options_.max_sample_bytes) {
    fail(std::move(read), too_large(place.size_bytes, options_.max_sample_bytes));
    return std::nullopt;
  }
  auto file = files_.open(dataset_.shards()[place.shard]);
  if (!file) {
    fail(std::move(read), file.error());
    return std::nullopt;
  }
  read.file = *file;
  read.offset_bytes = place.offset_bytes;
  read.size_bytes = place.size_bytes;
  return read;
}

/// Lets the samples that follow in the order ride along while they lie behind each other in the
/// same shard and one buffer holds them all.
void ReadStage::join_neighbours(Read& read) {
  while (read.file && batch_ && !held_seat_) {
    auto seat = next_seat({}, /*may_wait=*/false);
    if (!seat) return;
    const formats::Place& place = seat->place;
    const std::uint64_t end = read.offset_bytes + read.size_bytes;
    const bool joins =
        place.shard == read.seats.front().place.shard && place.offset_bytes >= end &&
        place.offset_bytes - end <= kMaxGapBytes && place.size_bytes <= buffers_->buffer_bytes() &&
        place.offset_bytes + place.size_bytes - read.offset_bytes <= buffers_->buffer_bytes();
    if (!joins) {
      held_seat_ = std::move(seat);
      return;
    }
    read.size_bytes = place.offset_bytes + place.size_bytes - read.offset_bytes;
    read.seats.push_back(std::move(*seat));
  }
}

bool ReadStage::take_buffer(Read& read, const std::stop_token& stop, bool may_wait) {
  if (read.lease) return true;
  if (read.size_bytes > buffers_->buffer_bytes()) {
    read.lease = may_wait ? buffers_->oversized(read.size_bytes, stop)
                          : buffers_->try_oversized(read.size_bytes);
  } else {
    read.lease = may_wait ? buffers_->acquire(stop) : buffers_->try_acquire();
  }
  return static_cast<bool>(read.lease);
}

void ReadStage::place_in_flight(Read read) {
  const std::size_t slot = free_slots_.back();
  free_slots_.pop_back();
  std::lock_guard lock(mutex_);
  slots_[slot] = std::move(read);
  Read& placed = *slots_[slot];
  placed.started = Clock::now();
  storage::ReadRequest request;
  request.file = placed.file.get();
  request.path = placed.file ? nullptr : placed.path.c_str();
  request.offset_bytes = placed.offset_bytes;
  request.destination = placed.lease.bytes().first(placed.size_bytes);
  request.user_data = slot;
  requests_.push_back(request);
  ++in_flight_count_;
}

bool ReadStage::complete(storage::Completion& completion, const std::stop_token& stop) {
  Read read;
  {
    std::lock_guard lock(mutex_);
    std::optional<Read>& slot = slots_[completion.user_data];
    read = std::move(*slot);
    slot.reset();
    --in_flight_count_;
    free_slots_.push_back(static_cast<std::size_t>(completion.user_data));
  }
  if (stop.stop_requested()) return false;
  counters_.record(completion);
  if (!completion.bytes_read) {
    if (read.seats.size() > 1) {
      split(std::move(read));  // One of them is to blame; the others are to be delivered.
      return true;
    }
    return fail(std::move(read), completion.bytes_read.error());
  }
  const std::size_t bytes_read = *completion.bytes_read;
  if (!read.file && bytes_read == read.size_bytes) {
    return read_again_whole(std::move(read));
  }
  return deliver(std::move(read), bytes_read);
}

/// A file that fills its buffer may go on behind it: ask for its size and read it in one piece.
bool ReadStage::read_again_whole(Read read) {
  auto opened = backend_->open(read.path);
  if (!opened) return fail(std::move(read), opened.error());
  read.file = std::move(*opened);
  const std::uint64_t size = std::max<std::uint64_t>(1, read.file->size_bytes());
  if (size > options_.max_sample_bytes) {
    return fail(std::move(read), too_large(size, options_.max_sample_bytes));
  }
  read.size_bytes = static_cast<std::size_t>(size);
  read.lease.release();
  retries_.push_back(std::move(read));
  return true;
}

void ReadStage::split(Read read) {
  for (Seat& seat : read.seats) {
    Read alone;
    alone.file = read.file;
    alone.offset_bytes = seat.place.offset_bytes;
    alone.size_bytes = static_cast<std::size_t>(seat.place.size_bytes);
    alone.seats.push_back(std::move(seat));
    retries_.push_back(std::move(alone));
  }
}

bool ReadStage::deliver(Read read, std::size_t bytes_read) {
  const bool is_whole_file = read.seats.front().place.shard == formats::Place::kOwnFile;
  const auto extent = std::make_shared<const BufferPool::Lease>(std::move(read.lease));
  for (Seat& seat : read.seats) {
    DecodeTask task{std::move(seat.batch), seat.index, seat.pick, extent, {}, {}};
    const std::size_t begin =
        is_whole_file ? 0 : static_cast<std::size_t>(seat.place.offset_bytes - read.offset_bytes);
    const std::size_t size =
        is_whole_file ? bytes_read : static_cast<std::size_t>(seat.place.size_bytes);
    if (begin + size <= bytes_read) {
      task.encoded = std::span<const std::byte>(extent->bytes()).subspan(begin, size);
    } else {
      task.failure = Failure{
          ErrorCode::kCorruptData,
          fmt::format("the shard ends {} bytes into the sample; it is shorter than its index "
                      "says: copy it again or rebuild the index",
                      bytes_read > begin ? bytes_read - begin : 0)};
    }
    if (!push(std::move(task))) return false;
  }
  return true;
}

bool ReadStage::fail(Read read, const Failure& failure) {
  for (Seat& seat : read.seats) {
    DecodeTask task{std::move(seat.batch), seat.index, seat.pick, {}, {}, failure};
    if (!push(std::move(task))) return false;
  }
  return true;
}

bool ReadStage::push(DecodeTask task) {
  const auto start = Clock::now();
  const bool taken = output_.push(std::move(task));
  clock_.add_wait(nanoseconds_since(start));
  clock_.add_items(1);
  return taken;
}

std::vector<ReadStage::Waiting> ReadStage::in_flight() const {
  std::vector<Waiting> waiting;
  {
    std::lock_guard lock(mutex_);
    for (const std::optional<Read>& read : slots_) {
      if (!read) continue;
      const double seconds = static_cast<double>(nanoseconds_since(read->started)) * 1e-9;
      waiting.push_back({read->seats.front().pick.sample, seconds});
    }
  }
  std::sort(waiting.begin(), waiting.end(),
            [](const Waiting& a, const Waiting& b) { return a.seconds > b.seconds; });
  return waiting;
}

}  // namespace feedrace::pipeline
