// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/extent_planner.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr std::uint64_t kAnyTicket = ~std::uint64_t{0};

/// Samples of one shard unless a test says otherwise, by ticket.
class Planned {
 public:
  explicit Planned(std::uint64_t max_bytes = 1 << 20, std::uint64_t max_gap_bytes = 10)
      : planner_({max_bytes, max_gap_bytes}) {}

  void add(std::uint64_t ticket, std::uint64_t begin, std::uint64_t end, std::uint32_t shard = 0) {
    wanted_[ticket] = {ticket, shard, begin, end - begin};
    planner_.add(wanted_[ticket]);
  }
  PlannedExtent take(std::uint64_t ticket, std::uint64_t last_ticket = kAnyTicket,
                     std::uint64_t alignment_bytes = 1) {
    return planner_.take(wanted_.at(ticket), last_ticket, alignment_bytes);
  }
  void remove(std::uint64_t ticket) { planner_.remove(wanted_.at(ticket)); }
  std::size_t size() const { return planner_.size(); }

 private:
  ExtentPlanner planner_;
  std::map<std::uint64_t, Wanted> wanted_;
};

void expect_extent(const PlannedExtent& extent, std::uint64_t begin, std::uint64_t end) {
  EXPECT_EQ(extent.begin_bytes, begin);
  EXPECT_EQ(extent.end_bytes, end);
}

TEST(ExtentPlanner, TakesNeighboursOnBothSides) {
  Planned planned;
  planned.add(3, 100, 200);
  planned.add(0, 200, 300);  // The one that is due.
  planned.add(7, 300, 400);
  planned.add(5, 400, 450);
  const PlannedExtent extent = planned.take(0);
  expect_extent(extent, 100, 450);
  // The one that is due first, those behind it, those before it.
  EXPECT_THAT(extent.tickets, ElementsAre(0, 7, 5, 3));
  EXPECT_EQ(planned.size(), 0U);
}

TEST(ExtentPlanner, ReadsOverAGapUpToItsLimit) {
  Planned planned(1 << 20, 10);
  planned.add(1, 79, 90);
  planned.add(0, 100, 200);
  planned.add(2, 210, 300);
  planned.add(3, 311, 400);  // 11 bytes behind its neighbour.
  const PlannedExtent extent = planned.take(0);
  expect_extent(extent, 79, 300);
  EXPECT_THAT(extent.tickets, UnorderedElementsAre(0, 1, 2));
  expect_extent(planned.take(3), 311, 400);
}

TEST(ExtentPlanner, LeavesWhatLiesBeforeAGapThatIsTooWide) {
  Planned planned(1 << 20, 10);
  planned.add(1, 0, 89);  // 11 bytes before its neighbour.
  planned.add(0, 100, 200);
  EXPECT_THAT(planned.take(0).tickets, ElementsAre(0));
  EXPECT_THAT(planned.take(1).tickets, ElementsAre(1));
}

TEST(ExtentPlanner, KeepsToTheLimitWithTheAlignmentAtBothEnds) {
  const auto add_all = [](Planned& planned) {
    planned.add(1, 505, 511);
    planned.add(0, 520, 900);
    planned.add(2, 900, 1024);
    planned.add(3, 1024, 1540);
  };
  Planned aligned(1024);
  add_all(aligned);
  const PlannedExtent extent = aligned.take(0, kAnyTicket, 512);
  expect_extent(extent, 0, 1024);  // 3 would have made it 1536 at the least.
  EXPECT_THAT(extent.tickets, UnorderedElementsAre(0, 1, 2));

  Planned narrow(512);
  add_all(narrow);
  const PlannedExtent sector = narrow.take(0, kAnyTicket, 512);
  expect_extent(sector, 512, 1024);  // 1 lies in the sector before.
  EXPECT_THAT(sector.tickets, UnorderedElementsAre(0, 2));

  Planned any(1024);
  add_all(any);
  expect_extent(any.take(0), 520, 1540);
}

TEST(ExtentPlanner, FillsTheLimitToTheLastByte) {
  Planned planned(300, 10);
  planned.add(1, 0, 100);
  planned.add(0, 100, 200);
  planned.add(2, 200, 300);
  expect_extent(planned.take(0), 0, 300);

  Planned short_of_one(299, 10);
  short_of_one.add(1, 0, 100);
  short_of_one.add(0, 100, 200);
  short_of_one.add(2, 200, 300);
  expect_extent(short_of_one.take(0), 100, 300);  // Forwards first.
  expect_extent(short_of_one.take(1), 0, 100);
}

TEST(ExtentPlanner, LeavesThoseThatAreDueLater) {
  Planned planned(1 << 20, 20);
  planned.add(9, 60, 100);
  planned.add(0, 100, 200);
  planned.add(8, 200, 215);
  planned.add(5, 215, 300);  // The last that may ride along: over the one between.
  planned.add(6, 300, 400);
  const PlannedExtent extent = planned.take(0, 5);
  expect_extent(extent, 100, 300);
  EXPECT_THAT(extent.tickets, ElementsAre(0, 5));
  EXPECT_EQ(planned.size(), 3U);
  EXPECT_THAT(planned.take(6).tickets, ElementsAre(6));
  EXPECT_THAT(planned.take(8).tickets, ElementsAre(8));
  EXPECT_THAT(planned.take(9).tickets, ElementsAre(9));
}

TEST(ExtentPlanner, ReadsASampleThatIsWantedTwiceOnce) {
  Planned planned;
  planned.add(0, 100, 200);
  planned.add(1, 100, 200);
  planned.add(2, 100, 200);
  const PlannedExtent extent = planned.take(1);
  expect_extent(extent, 100, 200);
  EXPECT_THAT(extent.tickets, UnorderedElementsAre(0, 1, 2));
}

TEST(ExtentPlanner, CoversSamplesThatOverlap) {
  for (const std::uint64_t due : {0, 1}) {
    Planned planned;
    planned.add(0, 0, 500);  // Holds 1, and goes on behind it.
    planned.add(1, 100, 200);
    const PlannedExtent extent = planned.take(due);
    expect_extent(extent, 0, 500);
    EXPECT_EQ(extent.tickets.size(), 2U);
  }
}

TEST(ExtentPlanner, ReadsASampleAboveTheLimitAlone) {
  Planned planned(100);
  planned.add(1, 0, 50);
  planned.add(0, 50, 200);
  planned.add(2, 60, 70);  // Even one inside of it.
  planned.add(3, 200, 250);
  const PlannedExtent extent = planned.take(0);
  expect_extent(extent, 50, 200);
  EXPECT_THAT(extent.tickets, ElementsAre(0));
  EXPECT_EQ(planned.size(), 3U);
}

TEST(ExtentPlanner, NeverMixesShards) {
  Planned planned;
  planned.add(1, 300, 400, 0);
  planned.add(0, 300, 400, 1);
  planned.add(2, 200, 300, 1);
  planned.add(3, 400, 500, 2);
  planned.add(4, 0, 5, 2);
  const PlannedExtent extent = planned.take(0);
  expect_extent(extent, 200, 400);
  EXPECT_THAT(extent.tickets, UnorderedElementsAre(0, 2));
  // The end of a shard and the beginning of the next are not beside each other.
  expect_extent(planned.take(1), 300, 400);
  expect_extent(planned.take(4), 0, 5);
}

TEST(ExtentPlanner, ForgetsWhatIsRemoved) {
  Planned planned;
  planned.add(0, 0, 100);
  planned.add(1, 100, 200);
  planned.add(2, 200, 300);
  planned.remove(1);
  EXPECT_EQ(planned.size(), 2U);
  expect_extent(planned.take(0), 0, 100);  // 2 lies too far off without it.
}

/// Samples in random places, and the rules that every extent keeps, whatever they are.
class RandomPlan {
 public:
  RandomPlan(std::uint32_t seed, bool overlaps)
      : random_(seed),
        max_bytes_(below(4) == 0 ? 512 : 4096),
        max_gap_bytes_(below(600)),
        planner_({max_bytes_, max_gap_bytes_}),
        overlaps_(overlaps) {
    for (std::uint64_t ticket = 0; ticket < 200; ++ticket) add(ticket);
  }

  /// Takes all, by ticket, as a reader does.
  void take_all() {
    const std::uint64_t count = left_.size();
    std::size_t served = 0;
    for (std::uint64_t ticket = 0; ticket < count; ++ticket) {
      const auto found = left_.find(ticket);
      if (found == left_.end()) continue;
      const std::uint64_t last_ticket = below(2) == 0 ? kAnyTicket : ticket + below(50);
      const std::uint64_t alignment = std::uint64_t{1} << (below(2) * 9);
      const Wanted due = found->second;
      const PlannedExtent extent = planner_.take(due, last_ticket, alignment);
      served += extent.tickets.size();
      check(due, extent, last_ticket, alignment);
      EXPECT_EQ(planner_.size(), left_.size());
    }
    EXPECT_EQ(served, count);
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  void add(std::uint64_t ticket) {
    const std::uint64_t size = 1 + (below(20) == 0 ? below(6000) : below(300));
    const auto shard = static_cast<std::uint32_t>(below(3));
    Wanted wanted{ticket, shard, overlaps_ ? below(20'000) : ends_[shard] + below(700), size};
    ends_[shard] = wanted.offset_bytes + size;
    left_[ticket] = wanted;
    planner_.add(wanted);
  }

  void check(const Wanted& due, const PlannedExtent& extent, std::uint64_t last_ticket,
             std::uint64_t alignment) {
    ASSERT_FALSE(extent.tickets.empty());
    EXPECT_EQ(extent.tickets.front(), due.ticket);
    EXPECT_EQ(extent.begin_bytes % alignment, 0U);
    EXPECT_EQ(extent.end_bytes % alignment, 0U);
    if (extent.tickets.size() > 1) {
      EXPECT_LE(extent.end_bytes - extent.begin_bytes, max_bytes_);
    }
    std::vector<Wanted> taken;
    for (const std::uint64_t ticket : extent.tickets) {
      const auto found = left_.find(ticket);
      ASSERT_NE(found, left_.end()) << "taken twice";
      taken.push_back(found->second);
      left_.erase(found);
      EXPECT_LE(ticket, last_ticket);
      EXPECT_EQ(taken.back().shard, due.shard);
    }
    std::sort(taken.begin(), taken.end(),
              [](const Wanted& a, const Wanted& b) { return a.offset_bytes < b.offset_bytes; });
    check_cover(taken, extent, alignment);
    if (!overlaps_) check_greedy(taken.front(), taken.back(), extent, last_ticket, alignment);
  }

  /// From the first sample to the last and no further, with no gap that is too wide.
  void check_cover(const std::vector<Wanted>& taken, const PlannedExtent& extent,
                   std::uint64_t alignment) const {
    std::uint64_t end = taken.front().offset_bytes;
    EXPECT_EQ(extent.begin_bytes, end / alignment * alignment);
    for (const Wanted& each : taken) {
      EXPECT_LE(each.offset_bytes, end + max_gap_bytes_);
      end = std::max(end, end_of(each));
    }
    EXPECT_EQ(extent.end_bytes, (end + alignment - 1) / alignment * alignment);
  }

  /// What lies next to the extent was left for a reason: another shard, a gap, a late ticket, or no
  /// room. Of samples that do not overlap.
  void check_greedy(const Wanted& first, const Wanted& last, const PlannedExtent& extent,
                    std::uint64_t last_ticket, std::uint64_t alignment) const {
    const Wanted* before = nullptr;
    const Wanted* behind = nullptr;
    for (const auto& [ticket, each] : left_) {
      if (each.shard != first.shard) continue;
      if (each.offset_bytes < first.offset_bytes) {
        if (before == nullptr || each.offset_bytes > before->offset_bytes) before = &each;
      } else if (ticket <= last_ticket && each.offset_bytes > last.offset_bytes) {
        if (behind == nullptr || each.offset_bytes < behind->offset_bytes) behind = &each;
      }
    }
    const auto aligned_end = [&](const Wanted& wanted) {
      return (end_of(wanted) + alignment - 1) / alignment * alignment;
    };
    if (behind != nullptr && behind->offset_bytes <= end_of(last) + max_gap_bytes_) {
      EXPECT_GT(aligned_end(*behind) - extent.begin_bytes, max_bytes_) << behind->ticket;
    }
    if (before != nullptr && before->ticket <= last_ticket &&
        end_of(*before) + max_gap_bytes_ >= first.offset_bytes) {
      const std::uint64_t begin = before->offset_bytes / alignment * alignment;
      EXPECT_GT(extent.end_bytes - begin, max_bytes_) << before->ticket;
    }
  }

  static std::uint64_t end_of(const Wanted& wanted) {
    return wanted.offset_bytes + wanted.size_bytes;
  }

  std::mt19937 random_;
  const std::uint64_t max_bytes_;
  const std::uint64_t max_gap_bytes_;
  ExtentPlanner planner_;
  const bool overlaps_;
  std::map<std::uint32_t, std::uint64_t> ends_;
  std::map<std::uint64_t, Wanted> left_;
};

TEST(ExtentPlanner, TakesEachSampleOnceByTheRulesWhereverItLies) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomPlan(seed, seed % 2 == 0).take_all();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace feedrace::pipeline
