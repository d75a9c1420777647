// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/io_job.h"

#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace feedrace::diagnose {
namespace {

IoJob job_of(std::vector<IoFile> files, bool is_random) {
  IoJob job;
  job.files = std::move(files);
  job.block_bytes = 4096;
  job.is_random = is_random;
  return job;
}

TEST(BlockOrder, GoesThroughTheFilesFromFrontToEndWhenSequential) {
  const BlockOrder order(job_of({{"a", 2}, {"b", 3}}, false));
  const std::pair<std::size_t, std::uint64_t> wanted[] = {{0, 0},    {0, 4096}, {1, 0},
                                                          {1, 4096}, {1, 8192}, {0, 0}};
  for (std::uint64_t i = 0; i < std::size(wanted); ++i) {
    EXPECT_EQ(order.at(i).file, wanted[i].first) << i;
    EXPECT_EQ(order.at(i).offset_bytes, wanted[i].second) << i;
  }
}

TEST(BlockOrder, TakesEveryBlockOnceAPassWhenRandom) {
  for (const std::uint64_t count : {1, 2, 3, 4, 5, 63, 64, 65, 1000}) {
    const BlockOrder order(job_of({{"a", count}, {"b", 7}}, true));
    ASSERT_EQ(order.block_count(), count + 7);
    for (std::uint64_t pass = 0; pass < 3; ++pass) {
      std::set<std::pair<std::size_t, std::uint64_t>> seen;
      for (std::uint64_t i = 0; i < count + 7; ++i) {
        const Block block = order.at(pass * (count + 7) + i);
        EXPECT_LT(block.offset_bytes, (block.file == 0 ? count : 7) * 4096);
        seen.emplace(block.file, block.offset_bytes);
      }
      EXPECT_EQ(seen.size(), count + 7);
    }
  }
}

TEST(BlockOrder, DiffersFromPassToPassAndIsNotSequential) {
  const BlockOrder order(job_of({{"a", 1000}}, true));
  std::size_t same = 0;
  std::size_t steps = 0;
  for (std::uint64_t i = 0; i + 1 < 1000; ++i) {
    same += order.at(i).offset_bytes == order.at(1000 + i).offset_bytes ? 1 : 0;
    steps += order.at(i + 1).offset_bytes == order.at(i).offset_bytes + 4096 ? 1 : 0;
  }
  EXPECT_LT(same, 20U);
  EXPECT_LT(steps, 20U);
}

}  // namespace
}  // namespace feedrace::diagnose
