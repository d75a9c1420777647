// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/assembly.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/pipeline/test_readers.h"

namespace feedrace::pipeline {
namespace {

using Status = Assembly::Opened::Status;
using TakeStatus = Assembly::TakeStatus;
using namespace std::chrono_literals;

constexpr std::size_t kBatch = 4;

/// An assembly for the batches of one long epoch.
class AssemblyTest : public ::testing::Test {
 protected:
  Assembly::Opened open(std::uint64_t serial) { return assembly_.try_open(serial, epoch_, serial); }
  Assembly::Opened await_open(std::uint64_t serial, const std::stop_token& stop = {}) {
    return assembly_.open(serial, epoch_, serial, stop);
  }
  void fill(PendingBatch& batch) {
    for (std::size_t i = 0; i < batch.size; ++i) assembly_.finish_place(batch);
  }
  Assembly::Taken take_now() { return assembly_.take({}, std::chrono::steady_clock::now()); }
  static auto deadline() { return std::chrono::steady_clock::now() + 20s; }

  const std::shared_ptr<const order::EpochOrder> epoch_ = std::make_shared<const order::EpochOrder>(
      make_test_order(4002, Shuffle::kNone), order::SplitOptions{kBatch, 0, 1, LastBatch::kPartial},
      0);
  const std::shared_ptr<SlotPool> slots_ = make_test_slots(kBatch, 4, 4);
  Assembly assembly_{slots_, 3};
};

TEST_F(AssemblyTest, OpensABatchOnceForAllThatAsk) {
  const auto first = open(0);
  ASSERT_EQ(first.status, Status::kOpen);
  EXPECT_EQ(first.batch->size, kBatch);
  EXPECT_EQ(first.batch->remaining, kBatch);
  EXPECT_EQ(first.batch->number, 0U);
  EXPECT_EQ(open(0).batch, first.batch);
  EXPECT_EQ(await_open(0).batch, first.batch);
  EXPECT_EQ(slots_->out_count(), 1U);
  EXPECT_EQ(assembly_.opened_count(), 1U);
}

TEST_F(AssemblyTest, KnowsAShortBatch) {
  Assembly assembly(slots_, 3);
  const auto last = assembly.try_open(0, epoch_, 1000);
  ASSERT_EQ(last.status, Status::kOpen);
  EXPECT_EQ(last.batch->size, 2U);
  EXPECT_EQ(last.batch->remaining, 2U);
}

TEST_F(AssemblyTest, TakesFullBatchesInTheirOrderOnly) {
  const auto first = open(0).batch;
  const auto second = open(1).batch;
  fill(*second);
  EXPECT_EQ(take_now().status, TakeStatus::kTimedOut);
  fill(*first);
  EXPECT_EQ(take_now().batch, first);
  EXPECT_EQ(take_now().batch, second);
  EXPECT_EQ(take_now().status, TakeStatus::kTimedOut);
  EXPECT_EQ(assembly_.pending_count(), 0U);
  EXPECT_EQ(assembly_.opened_count(), 2U);
}

TEST_F(AssemblyTest, SaysThatABatchIsGone) {
  fill(*open(0).batch);
  ASSERT_EQ(take_now().status, TakeStatus::kTaken);
  for (const auto& gone : {open(0), await_open(0)}) {
    EXPECT_EQ(gone.status, Status::kTaken);
    EXPECT_EQ(gone.batch, nullptr);
  }
  EXPECT_EQ(slots_->out_count(), 0U);
}

TEST_F(AssemblyTest, HasNoRoomBehindTheWindow) {
  const auto first = open(0).batch;
  open(1);
  open(2);
  EXPECT_EQ(open(3).status, Status::kNoRoom);
  EXPECT_EQ(open(1).status, Status::kOpen);  // One that is open needs none.
  fill(*first);
  ASSERT_EQ(take_now().status, TakeStatus::kTaken);
  EXPECT_EQ(open(3).status, Status::kOpen);
}

TEST_F(AssemblyTest, TellsOfRoomThatWasMissing) {
  int told = 0;
  assembly_.on_room([&] { ++told; });
  for (std::uint64_t serial = 0; serial < 3; ++serial) fill(*open(serial).batch);
  ASSERT_EQ(take_now().status, TakeStatus::kTaken);
  EXPECT_EQ(told, 0);  // Nobody has asked.
  open(3);
  EXPECT_EQ(open(4).status, Status::kNoRoom);
  EXPECT_EQ(told, 0);
  ASSERT_EQ(take_now().status, TakeStatus::kTaken);
  EXPECT_EQ(told, 1);
  ASSERT_EQ(take_now().status, TakeStatus::kTaken);
  EXPECT_EQ(told, 1);
}

TEST_F(AssemblyTest, HasNoRoomWithoutASlot) {
  std::vector<std::shared_ptr<BatchSlot>> kept;
  while (auto slot = slots_->try_acquire()) kept.push_back(std::move(slot));
  EXPECT_EQ(open(0).status, Status::kNoRoom);
  EXPECT_EQ(assembly_.opened_count(), 0U);
  kept.pop_back();
  EXPECT_EQ(open(0).status, Status::kOpen);
}

TEST_F(AssemblyTest, WaitsForRoomUntilABatchIsTaken) {
  const auto first = open(0).batch;
  open(1);
  open(2);
  Assembly::Opened opened;
  {
    std::jthread reader([&] { opened = await_open(3); });
    std::this_thread::sleep_for(1ms);
    fill(*first);
    ASSERT_EQ(assembly_.take({}, deadline()).status, TakeStatus::kTaken);
  }
  EXPECT_EQ(opened.status, Status::kOpen);
}

TEST_F(AssemblyTest, EndsEveryWaitByStop) {
  std::stop_source stop;
  const auto stop_soon = [&](auto wait) {
    stop = {};
    std::jthread waiting([&] { wait(stop.get_token()); });
    std::this_thread::sleep_for(1ms);
    stop.request_stop();
  };
  stop_soon([&](const std::stop_token& token) {
    EXPECT_EQ(assembly_.take(token, deadline()).status, TakeStatus::kStopped);
  });
  stop_soon([&](const std::stop_token& token) { assembly_.await_opened(0, token); });
  for (const std::uint64_t serial : {0, 1, 2}) open(serial);
  stop_soon([&](const std::stop_token& token) {
    EXPECT_EQ(await_open(3, token).status, Status::kNoRoom);
  });
}

TEST_F(AssemblyTest, WakesThoseThatWaitForABatchOfOthers) {
  std::atomic<bool> is_open = false;
  {
    std::jthread other([&] {
      assembly_.await_opened(1, {});
      is_open = true;
    });
    open(0);
    std::this_thread::sleep_for(20ms);  // So that it waits, most likely.
    EXPECT_FALSE(is_open);
    open(1);
  }
  EXPECT_TRUE(is_open);
}

TEST_F(AssemblyTest, GivesReadersInThreadsTheSameBatches) {
  constexpr std::uint64_t kBatches = 1000;
  constexpr std::size_t kReaders = kBatch;  // A place each.
  std::vector<std::vector<const PendingBatch*>> seen(kReaders);
  std::vector<std::shared_ptr<PendingBatch>> taken;  // Alive, so that no address comes twice.
  {
    std::vector<std::jthread> readers;
    for (std::size_t i = 0; i < kReaders; ++i) {
      readers.emplace_back([&, i] {
        for (std::uint64_t serial = 0; serial < kBatches; ++serial) {
          const auto opened = await_open(serial);
          seen[i].push_back(opened.batch.get());
          if (opened.batch) assembly_.finish_place(*opened.batch);
        }
      });
    }
    for (std::uint64_t i = 0; i < kBatches; ++i) {
      auto next = assembly_.take({}, deadline());
      ASSERT_EQ(next.status, TakeStatus::kTaken);
      EXPECT_EQ(next.batch->number, i);
      next.batch->slot.reset();  // The consumer lets go of it.
      taken.push_back(std::move(next.batch));
    }
  }
  for (std::uint64_t i = 0; i < kBatches; ++i) {
    for (const auto& reader : seen) EXPECT_EQ(reader[i], taken[i].get());
  }
  EXPECT_EQ(slots_->out_count(), 0U);
}

TEST_F(AssemblyTest, NeedsOneSlotForABatchThatSeveralReadersWaitFor) {
  std::vector<std::shared_ptr<BatchSlot>> kept;
  while (auto slot = slots_->try_acquire()) kept.push_back(std::move(slot));
  std::stop_source stop;
  std::atomic<int> open_count = 0;
  const auto reader = [&] {
    if (await_open(0, stop.get_token()).status == Status::kOpen) ++open_count;
  };
  std::jthread first(reader);
  std::jthread second(reader);
  std::this_thread::sleep_for(5ms);
  kept.pop_back();  // The consumer lets go of one batch, and waits for the next with the others.
  for (const auto end = deadline(); open_count < 2 && std::chrono::steady_clock::now() < end;) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(open_count, 2) << "the batch is open, and a reader with samples in it still waits";
  stop.request_stop();
}

}  // namespace
}  // namespace feedrace::pipeline
