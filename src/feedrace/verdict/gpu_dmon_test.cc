// SPDX-License-Identifier: Apache-2.0
#include "feedrace/verdict/gpu_dmon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"

namespace feedrace::verdict {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr const char* kNew =
    "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk\n"
    "# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz\n"
    "    0     95     41     50     62     30      0      0      0      0   2619   1980\n"
    "    0     97     41     50      0      0      0      0      0      0   2619   1980\n"
    "    1     70     38      -     98     55      0      0      -      -   2619   1980\n";

TEST(GpuDmon, IsTheMeanOfEachGpu) {
  EXPECT_THAT(parse_gpu_dmon(kNew), ElementsAre(Pair(0, 0.31), Pair(1, 0.98)));
  EXPECT_DOUBLE_EQ(busiest_gpu(kNew), 0.98);
}

TEST(GpuDmon, ColumnsGoByTheirNames) {
  // `-s u` and `-o T` of older drivers: other columns, a clock in front.
  EXPECT_THAT(parse_gpu_dmon("# gpu    sm   mem   enc   dec\n# Idx     %     %     %     %\n"
                             "    0    40    20     0     0\n"),
              ElementsAre(Pair(0, 0.4)));
  EXPECT_THAT(parse_gpu_dmon("#Time        gpu    sm   mem\n#HH:MM:SS    Idx     %     %\n"
                             " 12:00:01      3    50    20\n"),
              ElementsAre(Pair(3, 0.5)));
}

TEST(GpuDmon, WhatIsHalfWrittenOrUnknownIsNotCounted) {
  EXPECT_THAT(parse_gpu_dmon("# gpu    sm   mem\n    0    40    20\n    0     -    20\n"
                             "    0   900    20\n    x    10    20\n    0"),
              ElementsAre(Pair(0, 0.4)));
}

TEST(GpuDmon, OtherTextIsRefused) {
  for (const char* text : {"", "# gpu sm\n", "    0    40    20\n", "# gpu mem\n 0 40\n",
                           "Failed to initialize NVML: Driver/library version mismatch\n"}) {
    EXPECT_THROW(parse_gpu_dmon(text), Error) << text;
  }
}

}  // namespace
}  // namespace feedrace::verdict
