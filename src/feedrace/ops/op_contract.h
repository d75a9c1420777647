// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/op.h"
#include "feedrace/ops/random_pictures.h"
#include "feedrace/random.h"

namespace feedrace::ops {

/// Runs `op` on noise of `size`; input and output rows are padded.
inline reference::Image run_op(const Op& op, ImageSize size, std::uint64_t seed) {
  constexpr std::uint32_t kPaddingPx = 5;
  constexpr std::uint8_t kPadding = 0xA5;
  const reference::Image input = noise(size.width_px + kPaddingPx, size.height_px, seed);
  ConstImageView from = input.view();
  from.width_px = size.width_px;
  const ImageSize planned = op.plan(size);
  reference::Image output(planned.width_px + kPaddingPx, planned.height_px);
  std::fill(output.rgb.begin(), output.rgb.end(), kPadding);
  ImageView to = output.view();
  to.width_px = planned.width_px;
  SampleRandom random(seed, 0, 1, 2);
  op.run(from, to, random);
  reference::Image result(planned.width_px, planned.height_px);
  for (std::size_t y = 0; y < planned.height_px; ++y) {
    const std::uint8_t* row = output.rgb.data() + y * to.row_bytes;
    const std::size_t used = std::size_t{planned.width_px} * 3;
    std::copy_n(row, used, &result.rgb[y * used]);
    for (std::size_t x = used; x < to.row_bytes; ++x) {
      EXPECT_EQ(row[x], kPadding) << op.name() << " wrote behind row " << y;
    }
  }
  return result;
}

/// The contract of op.h, for any op.
inline void expect_op_contract(const Op& op) {
  EXPECT_FALSE(op.name().empty());
  for (const ImageSize size : {ImageSize{1, 1}, {17, 9}, {64, 48}}) {
    const ImageSize planned = op.plan(size);
    EXPECT_GT(planned.width_px, 0U);
    EXPECT_GT(planned.height_px, 0U);
    const reference::Image first = run_op(op, size, 1);
    EXPECT_TRUE(first == run_op(op, size, 1)) << op.name() << " differs from run to run";
    std::vector<reference::Image> others(4);
    std::vector<std::thread> threads;
    for (reference::Image& other : others) {
      threads.emplace_back([&other, &op, size] { other = run_op(op, size, 1); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const reference::Image& other : others) {
      EXPECT_TRUE(first == other) << op.name() << " differs between threads";
    }
  }
}

}  // namespace feedrace::ops
