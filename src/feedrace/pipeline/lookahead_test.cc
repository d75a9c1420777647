// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/lookahead.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/pipeline/test_readers.h"

namespace feedrace::pipeline {
namespace {

using IsMine = std::function<bool(std::uint64_t)>;
using namespace std::chrono_literals;

bool take_now(Assembly& assembly) {
  return assembly.take({}, std::chrono::steady_clock::now()).status == Assembly::TakeStatus::kTaken;
}

/// Fills the place of a seat that is due.
void serve(ReaderWorld& world, Lookahead& reader, Seat& seat) {
  const auto batch = seat.batch;
  reader.finish(seat.ticket);
  world.assembly.finish_place(*batch);
}

/// Serves what is due now, without waiting.
std::size_t serve_now(ReaderWorld& world, Lookahead& reader, SeatLedger& ledger,
                      std::size_t number = 0) {
  std::size_t count = 0;
  while (Seat* seat = reader.next_due({}, /*may_wait=*/false)) {
    ledger.note(number, *seat);
    serve(world, reader, *seat);
    ++count;
  }
  return count;
}

/// Readers in one thread, by turns, with the consumer between them, until `batches` are taken.
void walk_by_turns(ReaderWorld& world, const std::vector<IsMine>& owners, std::uint64_t batches) {
  SeatLedger ledger(world);
  std::vector<std::unique_ptr<Lookahead>> readers;
  for (const IsMine& owner : owners) {
    readers.push_back(std::make_unique<Lookahead>(world.reader(owner)));
  }
  std::uint64_t taken = 0;
  for (std::size_t idle = 0; taken < batches && idle < 3 * readers.size();) {
    for (std::size_t i = 0; i < readers.size(); ++i) {
      const bool moved = serve_now(world, *readers[i], ledger, i) > 0;
      idle = moved ? 0 : idle + 1;
    }
    for (; take_now(world.assembly); ++taken) idle = 0;
  }
  EXPECT_GE(taken, batches) << "nobody goes on";
  ledger.expect_complete(taken);
}

/// Readers in threads of their own, as a run has them, until `batches` are taken.
class ReaderThreads {
 public:
  ReaderThreads(ReaderWorld& world, const std::vector<IsMine>& owners)
      : world_(world), ledger_(world), calls_(owners.size()) {
    for (std::size_t i = 0; i < owners.size(); ++i) {
      threads_.emplace_back([this, i, owner = owners[i]] { walk(i, owner); });
    }
  }
  ~ReaderThreads() { stop(); }

  /// Takes batches as they come; false when none comes any more.
  [[nodiscard]] bool take(std::uint64_t batches) {
    for (std::uint64_t i = 0; i < batches; ++i) {
      const auto taken = world_.assembly.take({}, std::chrono::steady_clock::now() + 20s);
      if (taken.status != Assembly::TakeStatus::kTaken) return false;
    }
    return true;
  }
  void stop() {
    stop_.request_stop();
    threads_.clear();
  }
  /// How often a reader has asked for what is due next.
  std::uint64_t calls(std::size_t reader) const { return calls_[reader]; }
  const SeatLedger& ledger() const { return ledger_; }

 private:
  void walk(std::size_t number, const IsMine& owner) {
    Lookahead reader = world_.reader(owner);
    while (!stop_.stop_requested()) {
      ++calls_[number];
      Seat* seat = reader.next_due(stop_.get_token(), /*may_wait=*/true);
      if (seat == nullptr) continue;
      ledger_.note(number, *seat);
      serve(world_, reader, *seat);
    }
  }

  ReaderWorld& world_;
  SeatLedger ledger_;
  std::vector<std::atomic<std::uint64_t>> calls_;
  std::stop_source stop_;
  std::vector<std::jthread> threads_;
};

IsMine every(std::uint64_t count, std::uint64_t which) {
  return [=](std::uint64_t sample) { return sample % count == which; };
}
IsMine from_to(std::uint64_t begin, std::uint64_t end) {
  return [=](std::uint64_t sample) { return sample >= begin && sample < end; };
}
bool nobodys(std::uint64_t /*sample*/) { return false; }

TEST(Lookahead, GivesEverySeatOfSeveralEpochsInOrder) {
  for (const auto last_batch : {LastBatch::kDrop, LastBatch::kPartial, LastBatch::kFill}) {
    ReaderWorld world({.samples = 50, .last_batch = last_batch});
    walk_by_turns(world, {IsMine()}, 20);
  }
}

TEST(Lookahead, BeginsInTheMiddleOfAnEpoch) {
  ReaderWorld world({.samples = 50, .first_epoch = 3, .first_position = 24});
  walk_by_turns(world, {every(2, 0), every(2, 1)}, 20);
}

TEST(Lookahead, DealsEachSeatToOneOfSeveralReaders) {
  for (const std::size_t horizon : {1, 5, 24, 200}) {
    for (const auto shuffle : {Shuffle::kNone, Shuffle::kWindow, Shuffle::kGlobal}) {
      SCOPED_TRACE("horizon " + std::to_string(horizon) + ", " + to_string(shuffle));
      ReaderWorld interleaved({.horizon = horizon, .shuffle = shuffle});
      walk_by_turns(interleaved, {every(3, 0), every(3, 1), every(3, 2)}, 40);
      ReaderWorld halves({.horizon = horizon, .shuffle = shuffle});
      walk_by_turns(halves, {from_to(0, 50), from_to(50, 100)}, 40);
    }
  }
}

TEST(Lookahead, TellsOfEachSeatOnceAndNoFurtherThanItsHorizon) {
  ReaderWorld world({.samples = 20, .window = 2, .horizon = 70});  // More than three epochs.
  SeatLedger ledger(world);
  std::vector<std::uint64_t> noticed;
  Lookahead reader = world.reader({}, [&](const Seat& seat) {
    EXPECT_EQ(seat.batch, nullptr);
    noticed.push_back(seat.ticket);
  });
  EXPECT_EQ(serve_now(world, reader, ledger), 16U);  // The window is full.
  EXPECT_EQ(reader.due_end(), 16U);
  EXPECT_EQ(noticed.size(), 16U + 70U);
  ASSERT_TRUE(take_now(world.assembly));
  EXPECT_EQ(serve_now(world, reader, ledger), 4U);  // The short batch at the epoch's end.
  EXPECT_EQ(noticed.size(), 20U + 70U);
  for (std::size_t i = 0; i < noticed.size(); ++i) EXPECT_EQ(noticed[i], i);
}

TEST(Lookahead, KnowsSeatsUntilTheyAreFinishedInAnyOrder) {
  ReaderWorld world({.samples = 64, .window = 4});
  Lookahead reader = world.reader({});
  std::vector<Seat*> due;
  while (Seat* seat = reader.next_due({}, false)) due.push_back(seat);
  ASSERT_EQ(due.size(), 32U);
  for (std::size_t i = 0; i < due.size(); ++i) {
    const std::uint64_t ticket = (i * 11 + 3) % due.size();
    ASSERT_EQ(&reader.seat(ticket), due[ticket]);
    serve(world, reader, *due[ticket]);
  }
  ASSERT_TRUE(take_now(world.assembly));
  const Seat* next = reader.next_due({}, false);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->ticket, 32U);
  EXPECT_EQ(next->serial, 4U);
}

TEST(Lookahead, GoesOnWhereTheConsumerTookBatchesThatWereOfOthersAlone) {
  ReaderWorld world({.samples = 32, .window = 3, .shuffle = Shuffle::kNone});
  SeatLedger ledger(world);
  Lookahead early = world.reader(from_to(0, 16));
  Lookahead late = world.reader(from_to(16, 32));
  EXPECT_EQ(serve_now(world, early, ledger, 0), 16U);
  ASSERT_TRUE(take_now(world.assembly));
  ASSERT_TRUE(take_now(world.assembly));
  // Batches 0 and 1 are gone before this one has asked for anything.
  EXPECT_EQ(serve_now(world, late, ledger, 1), 16U);
  ASSERT_TRUE(take_now(world.assembly));
  ASSERT_TRUE(take_now(world.assembly));
  ledger.expect_complete(4);
}

TEST(Lookahead, LooksNoFurtherAheadThanOthersOpenWhenItHasNothing) {
  ReaderWorld world({.samples = 1000, .shuffle = Shuffle::kNone});
  SeatLedger ledger(world);
  std::uint64_t asked = 0;
  Lookahead idle = world.reader([&](std::uint64_t) {
    ++asked;
    return false;
  });
  Lookahead busy = world.reader({});
  for (std::uint64_t round = 1; round <= 30; ++round) {
    EXPECT_EQ(idle.next_due({}, false), nullptr);
    EXPECT_EQ(idle.next_due({}, false), nullptr);
    EXPECT_LE(asked, 8 * (world.assembly.opened_count() + 1));
    serve_now(world, busy, ledger);
    while (take_now(world.assembly)) {
    }
  }
  EXPECT_GE(asked, 8U * 29U);  // It keeps up, or it would be late for its own.
}

TEST(Lookahead, StopsWhileItWaitsForRoom) {
  ReaderWorld world({.window = 2});
  SeatLedger ledger(world);
  Lookahead reader = world.reader({});
  EXPECT_EQ(serve_now(world, reader, ledger), 16U);
  std::stop_source stop;
  Seat* due = nullptr;
  {
    std::jthread waiting([&] { due = reader.next_due(stop.get_token(), /*may_wait=*/true); });
    std::this_thread::sleep_for(1ms);
    stop.request_stop();
  }
  EXPECT_EQ(due, nullptr);
  // A wait that was given up leaves nothing half done.
  ASSERT_TRUE(take_now(world.assembly));
  EXPECT_EQ(serve_now(world, reader, ledger), 8U);
}

TEST(Lookahead, StopsWhileItWaitsForABatchOfItsOwn) {
  ReaderWorld world({});
  Lookahead reader = world.reader(nobodys);
  std::stop_source stop;
  Seat* due = nullptr;
  {
    std::jthread waiting([&] { due = reader.next_due(stop.get_token(), /*may_wait=*/true); });
    std::this_thread::sleep_for(1ms);
    stop.request_stop();
  }
  EXPECT_EQ(due, nullptr);
}

TEST(LookaheadThreads, GiveEverySeatOnce) {
  for (const std::size_t horizon : {2, 24, 300}) {
    for (const auto shuffle : {Shuffle::kNone, Shuffle::kGlobal}) {
      ReaderWorld world({.horizon = horizon, .shuffle = shuffle});
      ReaderThreads readers(world, {every(3, 0), every(3, 1), every(3, 2)});
      ASSERT_TRUE(readers.take(200)) << "horizon " << horizon;
      readers.stop();
      readers.ledger().expect_complete(200);
    }
  }
}

TEST(LookaheadThreads, GoOnFromOneDeviceToTheNext) {
  // In the stored order only one of them has samples at a time.
  ReaderWorld world({.samples = 240, .window = 2, .horizon = 16, .shuffle = Shuffle::kNone});
  ReaderThreads readers(world, {from_to(160, 240), from_to(0, 80), from_to(80, 160)});
  ASSERT_TRUE(readers.take(150));
  readers.stop();
  readers.ledger().expect_complete(150);
}

TEST(LookaheadThreads, WakeTheOneWhoseSamplesComeLateInTheEpoch) {
  ReaderWorld world({.samples = 801, .shuffle = Shuffle::kNone});
  ReaderThreads readers(world, {from_to(0, 800), from_to(800, 801)});
  ASSERT_TRUE(readers.take(303));  // Three epochs; the last batch is the late one's alone.
  readers.stop();
  readers.ledger().expect_complete(303);
}

TEST(LookaheadThreads, DoNotSpinWithoutSamples) {
  ReaderWorld world({.samples = 400});
  ReaderThreads readers(world, {IsMine(), nobodys});
  ASSERT_TRUE(readers.take(100));
  readers.stop();  // Or hangs.
  readers.ledger().expect_complete(100);
  // Woken once for each batch that was opened, and once by the end.
  EXPECT_LE(readers.calls(1), world.assembly.opened_count() + 2);
}

TEST(LookaheadThreads, TakeTurnsWithAHorizonOfOneSample) {
  // Each has nothing known ahead when the other's batch is to be opened.
  ReaderWorld world({.samples = 2, .batch_size = 1, .horizon = 1, .shuffle = Shuffle::kNone});
  ReaderThreads readers(world, {from_to(1, 2), from_to(0, 1)});
  ASSERT_TRUE(readers.take(100));
  readers.stop();
  readers.ledger().expect_complete(100);
}

}  // namespace
}  // namespace feedrace::pipeline
