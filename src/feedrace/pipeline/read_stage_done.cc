// SPDX-License-Identifier: Apache-2.0
// What becomes of reads that came back: samples for the decoder, or another read.

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/alignment.h"
#include "feedrace/pipeline/read_stage.h"

namespace feedrace::pipeline {

bool ReadStage::drain(const std::stop_token& stop) {
  std::array<storage::Completion, kHarvest> done;
  const watch::Range range = options_.tracing.range(watch::TraceKind::kAwaitRead);
  const auto start = Clock::now();
  const std::size_t count = backend_->wait(done, 1);
  const auto came = Clock::now();
  clock_.add_busy(nanoseconds_between(start, came));
  options_.tracing.span(watch::TraceKind::kAwaitRead, start, came);
  for (std::size_t i = 0; i < count; ++i) complete(done[i], stop);
  return hand_on();
}

void ReadStage::complete(storage::Completion& completion, const std::stop_token& stop) {
  Read read;
  {
    std::lock_guard lock(mutex_);
    std::optional<Read>& slot = slots_[completion.user_data];
    read = std::move(*slot);
    slot.reset();
    --in_flight_count_;
    in_flight_bytes_ -= read.size_bytes;
    free_slots_.push_back(static_cast<std::size_t>(completion.user_data));
  }
  if (stop.stop_requested()) return;
  counters_.record(completion);
  if (options_.tracing.is_on()) {
    const auto size = completion.bytes_read ? *completion.bytes_read : 0;
    options_.tracing.span(watch::TraceKind::kRead, read.started, Clock::now(), read.sample, size);
  }
  if (!completion.bytes_read) {
    if (read.tickets.size() == 1) {
      return fail(lookahead_.seat(read.tickets[0]), completion.bytes_read.error());
    }
    return read_apart(read);  // One of them is to blame; the others are to be delivered.
  }
  const std::size_t bytes_read = *completion.bytes_read;
  if (read.sought) return deliver_cached(std::move(read), bytes_read);
  if (read.file && read.path.empty()) return deliver_range(std::move(read), bytes_read);
  if (!read.file && bytes_read == read.size_bytes) return read_again_whole(std::move(read));
  return deliver_file(std::move(read), bytes_read);
}

/// A file that fills its buffer may go on behind it: ask for its size and read it in one piece.
void ReadStage::read_again_whole(Read read) {
  Seat& seat = lookahead_.seat(read.tickets[0]);
  note_opening(seat.pick.sample);
  auto opened = backend_->open(read.path);
  note_opening(std::nullopt);
  if (!opened) return fail(seat, opened.error());
  read.file = std::move(*opened);
  const std::uint64_t size = std::max<std::uint64_t>(1, read.file->size_bytes());
  if (size > options_.max_sample_bytes) {
    return fail(seat, too_large(size, options_.max_sample_bytes));
  }
  read.size_bytes = static_cast<std::size_t>(round_up(size, read.file->alignment_bytes()));
  read.lease.release();
  retries_.push_back(std::move(read));
}

/// Those that are due at once, the others when they are.
void ReadStage::read_apart(const Read& read) {
  for (const std::uint64_t ticket : read.tickets) {
    Seat& seat = lookahead_.seat(ticket);
    seat.is_alone = true;
    seat.is_read = false;
    if (seat.batch) apart_.push_back(ticket);
  }
}

void ReadStage::deliver_file(Read read, std::size_t bytes_read) {
  Seat& seat = lookahead_.seat(read.tickets[0]);
  const auto memory = std::make_shared<const BufferPool::Lease>(std::move(read.lease));
  return push(seat, {seat.batch,
                     seat.index,
                     seat.pick,
                     memory,
                     std::span<const std::byte>(memory->bytes()).first(bytes_read),
                     {}});
}

void ReadStage::deliver_range(Read read, std::size_t bytes_read) {
  const auto extent = std::make_shared<const BufferPool::Lease>(std::move(read.lease));
  for (const std::uint64_t ticket : read.tickets) {
    Seat& seat = lookahead_.seat(ticket);
    const HeldBytes bytes{extent, read.offset_bytes, bytes_read};
    if (!seat.batch) {
      seat.held = bytes;
    } else {
      deliver_held(seat, bytes);
    }
  }
}

void ReadStage::deliver_cached(Read read, std::size_t bytes_read) {
  Seat& seat = lookahead_.seat(read.tickets[0]);
  CachedSamples::Sought& sought = *read.sought;
  const bool is_file = seat.place.shard == formats::Place::kOwnFile;
  const auto read_part = sought.found.claim.memory().first(bytes_read);
  // A file that has changed since it was asked for its size is not what the key says.
  const bool is_whole =
      is_file ? bytes_read == sought.sample_bytes : sought.sample_in(read_part).has_value();
  if (!is_whole) {
    sought.found.claim.abandon();
    seat.is_alone = true;
    apart_.push_back(seat.ticket);
    return;
  }
  const auto sample = sought.sample_in(sought.found.claim.fill(bytes_read));
  return push(seat, {seat.batch, seat.index, seat.pick, cached_->owner(), *sample, {}});
}

void ReadStage::deliver_held(Seat& seat, const HeldBytes& held) {
  const auto begin = static_cast<std::size_t>(seat.place.offset_bytes - held.begin_bytes);
  const auto size = static_cast<std::size_t>(seat.place.size_bytes);
  if (begin + size > held.bytes_read) {
    return fail(seat, {ErrorCode::kCorruptData,
                       fmt::format("the shard ends {} bytes into the sample; it is shorter than "
                                   "its index says: copy it again or rebuild the index",
                                   held.bytes_read > begin ? held.bytes_read - begin : 0)});
  }
  const std::span<const std::byte> bytes = held.extent->bytes();
  return push(seat,
              {seat.batch, seat.index, seat.pick, held.extent, bytes.subspan(begin, size), {}});
}

void ReadStage::fail(Seat& seat, const Failure& failure) {
  return push(seat, {seat.batch, seat.index, seat.pick, {}, {}, failure});
}

/// The seat is served by it.
void ReadStage::push(Seat& seat, DecodeTask task) {
  lookahead_.finish(seat.ticket);
  tasks_.push_back(std::move(task));
}

/// Several at a time: waking a thread costs more than handing it a sample. False: the end.
bool ReadStage::hand_on() {
  if (tasks_.empty()) return true;
  const auto start = Clock::now();
  clock_.add_items(tasks_.size());
  const auto told = trace_begun_batches(start);
  const bool taken = output_.push_all(tasks_);
  const auto end = Clock::now();
  clock_.add_wait(nanoseconds_between(start, end));
  options_.tracing.span(watch::TraceKind::kHandOn, told, end);
  return taken;
}

/// For a trace: the batches whose first samples are among those that are handed on, in a span of
/// its own from `came` to what is returned. Told before they are handed on: then the consumer may
/// have them, and the trace its end, before this thread goes on.
Clock::time_point ReadStage::trace_begun_batches(Clock::time_point came) {
  if (!options_.tracing.is_on()) return came;
  for (const DecodeTask& task : tasks_) {
    const std::uint64_t batch = task.batch->trace_id();
    if (batch == traced_batch_) continue;
    traced_batch_ = batch;
    options_.tracing.mark(watch::TraceKind::kBatchRead, came, batch);
  }
  const auto told = std::max(Clock::now(), came + std::chrono::nanoseconds(1));
  options_.tracing.span(watch::TraceKind::kHandOn, came, told);
  return told;
}

}  // namespace feedrace::pipeline
