// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/read_stage.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/alignment.h"
#include "feedrace/host/numa.h"

namespace feedrace::pipeline {
namespace {

// Two samples share a read when what lies between them is less than a request costs anyway: tar
// headers, paddings, a label.
constexpr std::uint64_t kMaxGapBytes = 16 << 10;
// Between questions for samples that another process is reading.
constexpr std::chrono::microseconds kBusyPause{200};
// How long one process waits for another's read before it reads for itself.
constexpr std::chrono::seconds kBusyPatience{2};
// More bytes in flight only wait longer in the device's queue: 2 GB/s take 32 ms for them.
constexpr std::uint64_t kMaxBytesInFlight = std::uint64_t{64} << 20;

Wanted wanted_of(const Seat& seat) {
  return {seat.ticket, seat.place.shard, seat.place.offset_bytes, seat.place.size_bytes};
}

}  // namespace

ReadStage::ReadStage(const formats::Dataset& dataset, MakeBackend make_backend,
                     std::shared_ptr<BufferPool> buffers, Assembly& assembly,
                     BoundedQueue<DecodeTask>& output, ReadCounters& counters, StageClock& clock,
                     storage::FallbackLog& fallbacks, ReadOptions options)
    : dataset_(dataset),
      make_backend_(std::move(make_backend)),
      buffers_(std::move(buffers)),
      output_(output),
      counters_(counters),
      clock_(clock),
      fallbacks_(fallbacks),
      options_(std::move(options)),
      planner_({buffers_->buffer_bytes(), kMaxGapBytes}),
      lookahead_(dataset, assembly, options_.order, [this](const Seat& seat) { notice(seat); }) {
  if (options_.cache) cached_.emplace(options_.cache, dataset_);
}

ReadStage::~ReadStage() = default;

Failure ReadStage::too_large(std::uint64_t bytes, std::uint64_t limit) {
  return {
      ErrorCode::kCorruptData,
      fmt::format("the sample has {} bytes and at most {} are read (the memory limit, and 1 GiB in "
                  "any case; by cufile, what its buffers take); take it out, or raise the memory "
                  "limit",
                  bytes, limit)};
}

void ReadStage::run(const std::stop_token& stop) {
  // Where it can't be bound it runs elsewhere: slower, but nothing to stop for.
  if (!options_.cpus.empty() && !host::bind_thread(options_.cpus)) {
    fallbacks_.add(
        "the reader could not be bound to the CPUs of its device's NUMA node; allow "
        "them (taskset, cpuset)");
  }
  open_backend();
  try {
    walk(stop);
  } catch (...) {
    settle();
    throw;
  }
  settle();
}

/// In the reader's thread, so that a ring's memory lies on its node.
void ReadStage::open_backend() {
  auto backend = make_backend_();
  // Pinning takes 2 s a GB, so what holds a window is not; nor is it needed for reading.
  const std::span<std::byte> memory = buffers_->memory();
  const std::size_t base_bytes = options_.base_buffers * buffers_->buffer_bytes();
  const auto pinned = backend->register_memory(memory.first(std::min(memory.size(), base_bytes)));
  if (!pinned) {
    fallbacks_.add(pinned.error().message);
    populate(memory.first(std::min(memory.size(), base_bytes)));  // As pinning would have.
  }
  const std::size_t depth =
      std::max<std::size_t>(1, std::min(options_.queue_depth, backend->limits().max_in_flight));
  std::lock_guard lock(mutex_);
  backend_ = std::move(backend);
  files_.emplace(*backend_, FileCache::default_capacity());
  slots_.resize(depth);
  for (std::size_t i = depth; i > 0; --i) free_slots_.push_back(i - 1);
}

void ReadStage::interrupt() noexcept {
  std::lock_guard lock(mutex_);
  if (backend_) backend_->interrupt();
}

void ReadStage::notice(const Seat& seat) {
  const bool is_range = seat.place.shard != formats::Place::kOwnFile && !cached_;
  if (is_range && seat.place.size_bytes <= buffers_->buffer_bytes()) planner_.add(wanted_of(seat));
}

void ReadStage::walk(const std::stop_token& stop) {
  for (std::uint64_t before = thread_cpu_ns(); !stop.stop_requested();) {
    if (!fill(stop)) return;
    if (!is_idle() && !drain(stop)) return;
    const std::uint64_t now = thread_cpu_ns();
    clock_.add_cpu(now - before);
    before = now;
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
  const watch::Range range = options_.tracing.range(watch::TraceKind::kChoose);
  const auto begun = Clock::now();
  while (!free_slots_.empty() && !stop.stop_requested()) {
    if (!is_idle() && in_flight_bytes_ >= kMaxBytesInFlight) break;
    // A sample that another process reads comes without a completion of ours.
    const bool may_wait = is_idle() && busy_.empty();
    const auto start = Clock::now();
    const bool ready = prepare_read(stop, may_wait);
    if (may_wait) {
      const auto now = Clock::now();
      clock_.add_wait(nanoseconds_between(start, now));
      options_.tracing.span(watch::TraceKind::kRoom, start, now);
    }
    if (!ready) break;
    place_in_flight(std::move(*held_read_));
    held_read_.reset();
  }
  if (is_idle() && requests_.empty() && !busy_.empty()) std::this_thread::sleep_for(kBusyPause);
  const auto start = Clock::now();
  // The slots are bounded by the back end's own limit, so it takes every request.
  backend_->submit(requests_);
  requests_.clear();
  const auto submitted = Clock::now();
  clock_.add_busy(nanoseconds_between(start, submitted));
  options_.tracing.span(watch::TraceKind::kChoose, begun, submitted);
  return hand_on() && !stop.stop_requested();
}

/// The next read with its buffer, in `held_read_`. False: not now, or the end.
bool ReadStage::prepare_read(const std::stop_token& stop, bool may_wait) {
  // A profiler is told of what may wait only.
  const watch::Range room(may_wait ? options_.tracing.ranges() : watch::RangeCalls(),
                          to_string(watch::TraceKind::kRoom));
  if (!held_read_) held_read_ = next_read(stop, may_wait);
  return held_read_ && take_buffer(*held_read_, stop, may_wait);
}

std::optional<ReadStage::Read> ReadStage::next_read(const std::stop_token& stop, bool may_wait) {
  if (!retries_.empty()) {
    Read read = std::move(retries_.front());
    retries_.pop_front();
    return read;
  }
  if (!apart_.empty()) {
    const std::uint64_t ticket = apart_.front();
    apart_.pop_front();
    return read_of(lookahead_.seat(ticket));
  }
  if (auto read = ask_again()) return read;
  if (!hand_on()) return std::nullopt;
  // A busy sample may be what the consumer waits for, so that no room comes before it.
  while (Seat* seat = lookahead_.next_due(stop, may_wait && busy_.empty())) {
    if (seat->held.extent) {
      const HeldBytes held = std::exchange(seat->held, {});
      deliver_held(*seat, held);
    } else if (!seat->is_read) {  // Else delivered when its read comes.
      if (auto read = read_of(*seat)) return read;
    }
    // Nothing may be kept back while this thread waits.
    const bool is_time = may_wait || tasks_.size() >= kHarvest;
    if ((is_time && !hand_on()) || stop.stop_requested()) break;
  }
  return std::nullopt;
}

/// What the shared cache has to say: the sample is delivered, to be read into the cache, to be
/// asked for again, or to be read as if there were no cache.
ReadStage::Lookup ReadStage::look_up(Seat& seat, Read& read) {
  if (!cached_ || seat.is_alone) return Lookup::kNotCached;
  auto sought = cached_->find(seat.pick.sample, seat.place);
  if (!sought || sought->read_bytes > options_.max_sample_bytes) return Lookup::kNotCached;
  switch (sought->found.state) {
    case storage::SharedCache::State::kBusy:
      busy_.push_back({seat.ticket, Clock::now()});
      return Lookup::kLater;
    case storage::SharedCache::State::kFull:
      return Lookup::kNotCached;
    case storage::SharedCache::State::kClaimed:
      read.sought = std::move(*sought);
      return Lookup::kRead;
    case storage::SharedCache::State::kHit:
      break;
  }
  const auto sample = sought->sample_in(sought->found.bytes);
  if (!sample) return Lookup::kNotCached;
  push(seat, {seat.batch, seat.index, seat.pick, cached_->owner(), *sample, {}});
  return Lookup::kDone;
}

std::optional<ReadStage::Read> ReadStage::ask_again() {
  for (std::size_t left = busy_.size(); left > 0; --left) {
    const Busy busy = busy_.front();
    busy_.pop_front();
    Seat& seat = lookahead_.seat(busy.ticket);
    // One that was stopped, or whose device hangs, must not hold up this process too.
    seat.is_alone = Clock::now() - busy.since > kBusyPatience;
    auto read = read_of(seat);
    const bool is_still_busy = !busy_.empty() && busy_.back().ticket == busy.ticket;
    if (is_still_busy) busy_.back().since = busy.since;
    if (read) return read;
  }
  return std::nullopt;
}

/// An open may hang as a read may (a dead network mount), so it is noted for the time-out's
/// message.
Result<std::shared_ptr<storage::File>> ReadStage::open_shard(const Seat& seat) {
  note_opening(seat.pick.sample);
  auto file = files_->open(dataset_.shards()[seat.place.shard]);
  note_opening(std::nullopt);
  return file;
}

void ReadStage::note_opening(std::optional<std::uint64_t> sample) {
  std::lock_guard lock(mutex_);
  opening_ = sample;
  opening_since_ = Clock::now();
}

/// The read of a seat that is due, with what rides along; nothing when none is needed, or it failed
/// before it began, which is handed on.
std::optional<ReadStage::Read> ReadStage::read_of(Seat& seat) {
  Read cached;
  const std::uint64_t ticket = seat.ticket;
  switch (look_up(seat, cached)) {
    case Lookup::kDone:
    case Lookup::kLater:
      return std::nullopt;
    case Lookup::kNotCached:
      break;
    case Lookup::kRead: {
      cached.tickets = {ticket};
      cached.sample = seat.pick.sample;
      cached.offset_bytes = cached.sought->begin_bytes;
      cached.size_bytes = cached.sought->read_bytes;
      if (seat.place.shard == formats::Place::kOwnFile) {
        cached.path = dataset_.path(seat.pick.sample);
        return cached;
      }
      auto file = open_shard(seat);
      if (file) {
        cached.file = *file;
        return cached;
      }
      break;  // Without the cache, which says what is wrong.
    }
  }
  return seat.place.shard == formats::Place::kOwnFile ? read_of_file(seat) : read_of_range(seat);
}

std::optional<ReadStage::Read> ReadStage::read_of_file(Seat& seat) {
  Read read;
  read.path = dataset_.path(seat.pick.sample);
  read.size_bytes = buffers_->buffer_bytes();
  read.tickets = {seat.ticket};
  read.sample = seat.pick.sample;
  seat.is_read = true;
  return read;
}

std::optional<ReadStage::Read> ReadStage::read_of_range(Seat& seat) {
  const formats::Place& place = seat.place;
  const bool is_planned =
      place.size_bytes <= buffers_->buffer_bytes() && !seat.is_alone && !cached_;
  auto file = open_shard(seat);
  const bool is_too_large = place.size_bytes > options_.max_sample_bytes;
  if (is_too_large || !file) {
    if (is_planned) planner_.remove(wanted_of(seat));
    fail(seat,
         is_too_large ? too_large(place.size_bytes, options_.max_sample_bytes) : file.error());
    return std::nullopt;
  }
  Read read;
  read.file = *file;
  read.sample = seat.pick.sample;
  const std::uint64_t alignment = read.file->alignment_bytes();
  if (is_planned) {
    const bool may_hold = buffers_->free_count() > options_.base_buffers / 2;
    const std::uint64_t last = may_hold ? ~std::uint64_t{0} : lookahead_.due_end() - 1;
    PlannedExtent extent = planner_.take(wanted_of(seat), last, alignment);
    read.tickets = std::move(extent.tickets);
    read.offset_bytes = extent.begin_bytes;
    read.size_bytes = static_cast<std::size_t>(extent.end_bytes - extent.begin_bytes);
  } else {
    read.tickets = {seat.ticket};
    read.offset_bytes = round_down(place.offset_bytes, alignment);
    read.size_bytes = static_cast<std::size_t>(
        round_up(place.offset_bytes + place.size_bytes, alignment) - read.offset_bytes);
  }
  for (const std::uint64_t ticket : read.tickets) lookahead_.seat(ticket).is_read = true;
  return read;
}

bool ReadStage::take_buffer(Read& read, const std::stop_token& stop, bool may_wait) {
  if (read.lease || read.sought) return true;
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
  const auto memory = placed.sought ? placed.sought->found.claim.memory() : placed.lease.bytes();
  request.destination = memory.first(placed.size_bytes);
  request.user_data = slot;
  requests_.push_back(request);
  ++in_flight_count_;
  in_flight_bytes_ += placed.size_bytes;
}

std::vector<ReadStage::Waiting> ReadStage::in_flight() const {
  std::vector<Waiting> waiting;
  {
    std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (opening_) {
      const double seconds = std::chrono::duration<double>(now - opening_since_).count();
      waiting.push_back({*opening_, seconds});
    }
    for (const std::optional<Read>& read : slots_) {
      if (!read) continue;
      const double seconds = std::chrono::duration<double>(now - read->started).count();
      waiting.push_back({read->sample, seconds});
    }
  }
  std::sort(waiting.begin(), waiting.end(),
            [](const Waiting& a, const Waiting& b) { return a.seconds > b.seconds; });
  return waiting;
}

}  // namespace feedrace::pipeline
