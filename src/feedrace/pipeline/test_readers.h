// SPDX-License-Identifier: Apache-2.0
#pragma once

// Readers of several devices that walk one order, without files: what `Lookahead` and `Assembly`
// are tested with.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/pipeline/assembly.h"
#include "feedrace/pipeline/lookahead.h"
#include "feedrace/pipeline/test_synthetic_set.h"

namespace feedrace::pipeline {

inline std::shared_ptr<const order::SampleOrder> make_test_order(std::uint64_t samples,
                                                                 Shuffle shuffle) {
  order::OrderOptions options;
  options.sets.push_back(
      {"set", std::make_shared<const order::Selection>(order::Selection::all(samples)), 0, 1, 0});
  options.shuffle = {shuffle, 4, 16, 7};
  return std::make_shared<const order::SampleOrder>(std::move(options));
}

inline std::shared_ptr<SlotPool> make_test_slots(std::size_t batch_size, std::size_t planned,
                                                 std::size_t limit) {
  Pipeline pipeline = Pipeline::recipe("imagenet-train");
  std::get<RandomResizedCrop>(pipeline.steps.front()).size = {8, 8};
  return SlotPool::create(SlotShape(pipeline, batch_size), planned, limit);
}

/// An order, and an assembly with readers of it.
struct ReaderWorld {
  struct Shape {
    std::uint64_t samples = 100;
    std::size_t batch_size = 8;
    std::size_t window = 3;
    std::size_t horizon = 24;
    Shuffle shuffle = Shuffle::kGlobal;
    LastBatch last_batch = LastBatch::kPartial;
    std::uint64_t first_epoch = 0;
    std::uint64_t first_position = 0;
  };
  explicit ReaderWorld(const Shape& wanted)
      : shape(wanted),
        set(wanted.samples),
        order(make_test_order(wanted.samples, wanted.shuffle)),
        split{wanted.batch_size, 0, 1, wanted.last_batch},
        slots(make_test_slots(wanted.batch_size, wanted.window + 2, wanted.window + 2)),
        assembly(slots, wanted.window) {}

  Lookahead reader(
      std::function<bool(std::uint64_t)> is_mine, Lookahead::Noticed noticed = [](const Seat&) {}) {
    return {
        set,
        assembly,
        {order, split, shape.first_epoch, shape.first_position, shape.horizon, std::move(is_mine)},
        std::move(noticed)};
  }

  const Shape shape;
  const SyntheticSet set;
  const std::shared_ptr<const order::SampleOrder> order;
  const order::SplitOptions split;
  const std::shared_ptr<SlotPool> slots;
  Assembly assembly;
};

/// Notes which seats were given to whom, and compares with the order. Thread-safe.
class SeatLedger {
 public:
  explicit SeatLedger(const ReaderWorld& world) : world_(world) {}

  void note(std::size_t reader, const Seat& seat) {
    std::lock_guard lock(mutex_);
    const std::pair<std::uint64_t, std::size_t> place{seat.serial, seat.index};
    EXPECT_TRUE(seats_.emplace(place, seat.pick.sample).second)
        << "seat " << seat.index << " of batch " << seat.serial << " was given twice";
    const auto [last, is_first] = last_.try_emplace(reader, place);
    EXPECT_TRUE(is_first || last->second < place) << "out of order, reader " << reader;
    last->second = place;
    ASSERT_NE(seat.batch, nullptr);
    PendingBatch*& shared = batches_[seat.serial];
    if (shared == nullptr) shared = seat.batch.get();
    EXPECT_EQ(shared, seat.batch.get()) << "two batches of one number";
  }

  /// All seats of the first `batches` batches were given, and are the order's.
  void expect_complete(std::uint64_t batches) const {
    std::lock_guard lock(mutex_);
    auto epoch = std::make_unique<order::EpochOrder>(
        world_.order, world_.split, world_.shape.first_epoch, world_.shape.first_position);
    std::uint64_t number = 0;
    for (std::uint64_t serial = 0; serial < batches; ++serial, ++number) {
      if (number == epoch->split().steps) {
        number = 0;
        epoch = std::make_unique<order::EpochOrder>(world_.order, world_.split, epoch->epoch() + 1);
      }
      for (std::size_t index = 0; index < epoch->batch_size(number); ++index) {
        const auto found = seats_.find({serial, index});
        ASSERT_NE(found, seats_.end()) << "seat " << index << " of batch " << serial << " is empty";
        EXPECT_EQ(found->second, epoch->pick(number, index).sample);
      }
    }
  }

  std::uint64_t count_of_batch(std::uint64_t serial) const {
    std::lock_guard lock(mutex_);
    return static_cast<std::uint64_t>(
        std::distance(seats_.lower_bound({serial, 0}), seats_.lower_bound({serial + 1, 0})));
  }

 private:
  const ReaderWorld& world_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::size_t>, std::uint64_t> seats_;  // Guarded by mutex_.
  std::map<std::size_t, std::pair<std::uint64_t, std::size_t>> last_;     // Guarded by mutex_.
  std::map<std::uint64_t, PendingBatch*> batches_;                        // Guarded by mutex_.
};

}  // namespace feedrace::pipeline
