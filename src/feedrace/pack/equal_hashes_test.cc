// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/equal_hashes.h"

#include <algorithm>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::pack {
namespace {

using Record = EqualHashes::Record;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::vector<Record>> groups_of(EqualHashes& hashes) {
  std::vector<std::vector<Record>> groups;
  hashes.each_group([&](std::span<const Record> group) {
    groups.emplace_back(group.begin(), group.end());
    return true;
  });
  return groups;
}

TEST(EqualHashes, NothingThatComesOnceIsGiven) {
  EqualHashes hashes;
  for (std::uint32_t i = 0; i < 1000; ++i) hashes.add({i * std::uint64_t{77}, 0, i});
  EXPECT_THAT(groups_of(hashes), IsEmpty());
}

TEST(EqualHashes, EqualOnesComeTogetherInTheOrderOfTheSet) {
  EqualHashes hashes;
  hashes.add({9, 3, 0});
  hashes.add({5, 2, 7});
  hashes.add({9, 1, 4});
  hashes.add({9, 1, 2});
  EXPECT_THAT(groups_of(hashes),
              ElementsAre(ElementsAre(Record{9, 1, 2}, Record{9, 1, 4}, Record{9, 3, 0})));
}

TEST(EqualHashes, WhatDoesNotFitInMemoryGivesTheSame) {
  // Groups that are within a run, across runs, and partly in memory still.
  EqualHashes in_memory;
  EqualHashes spilled(/*records_in_memory=*/16);
  std::map<std::uint64_t, std::size_t> counts;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const Record record{i * std::uint64_t{2654435761} % 700, i / 10, i % 10};
    in_memory.add(record);
    spilled.add(record);
    ++counts[record.hash];
  }
  const auto expected = groups_of(in_memory);
  EXPECT_EQ(groups_of(spilled), expected);
  const auto repeated =
      std::count_if(counts.begin(), counts.end(), [](const auto& one) { return one.second > 1; });
  ASSERT_GT(repeated, 100);
  EXPECT_EQ(expected.size(), static_cast<std::size_t>(repeated));
}

TEST(EqualHashes, StopsWhenItIsTold) {
  EqualHashes hashes(/*records_in_memory=*/4);
  for (std::uint32_t i = 0; i < 100; ++i) hashes.add({i / 2, 0, i});
  int taken = 0;
  hashes.each_group([&](std::span<const Record>) { return ++taken < 3; });
  EXPECT_EQ(taken, 3);
}

}  // namespace
}  // namespace feedrace::pack
