// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/pinned_arena.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
constexpr std::size_t kBlockBytes = PinnedArena::kBlockBytes;

/// What is pinned at the moment; blocks come and go.
struct Pins {
  std::size_t now = 0;
  std::size_t ever = 0;

  PinMemory pin() {
    return [this](std::span<std::byte> memory) -> std::shared_ptr<const void> {
      ++now;
      ++ever;
      return {memory.data(), [this](const std::byte*) { --now; }};
    };
  }
};

std::shared_ptr<RaggedMemory> limited(std::uint64_t bytes) {
  return std::make_shared<RaggedMemory>(bytes);
}

TEST(PinnedArena, PiecesOfAllThreadsStayApart) {
  Pins pins;
  {
    PinnedArena arena(limited(kNoLimit), pins.pin());
    for (int batch = 0; batch < 3; ++batch) {
      arena.clear();
      std::vector<std::vector<std::span<std::byte>>> taken(4);
      {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < taken.size(); ++t) {
          threads.emplace_back([&arena, &mine = taken[t], t] {
            for (std::size_t i = 0; i < 100; ++i) {
              mine.push_back(arena.try_take(1 + (i * 7919 + t) % 50'000));
              std::memset(mine.back().data(), static_cast<int>(t), mine.back().size());
            }
          });
        }
      }
      for (std::size_t t = 0; t < taken.size(); ++t) {
        EXPECT_THAT(taken[t], SizeIs(100));
        const auto is_own = [t](std::byte byte) { return byte == static_cast<std::byte>(t); };
        for (const auto piece : taken[t]) {
          ASSERT_TRUE(std::all_of(piece.begin(), piece.end(), is_own));
        }
      }
    }
    // All of 400 pieces are below 12 MB, and blocks serve one batch after another.
    EXPECT_LE(pins.ever, 8U);
    EXPECT_EQ(pins.now, pins.ever);
  }
  EXPECT_EQ(pins.now, 0U);
}

TEST(PinnedArena, APieceLargerThanABlockGetsItsOwn) {
  Pins pins;
  PinnedArena arena(limited(kNoLimit), pins.pin());
  EXPECT_THAT(arena.try_take(100), SizeIs(100));
  EXPECT_THAT(arena.try_take(3 * kBlockBytes + 5), SizeIs(3 * kBlockBytes + 5));
  EXPECT_THAT(arena.try_take(kBlockBytes), SizeIs(kBlockBytes));
  EXPECT_EQ(pins.ever, 3U);
  arena.clear();
  EXPECT_THAT(arena.try_take(2 * kBlockBytes), SizeIs(2 * kBlockBytes));
  EXPECT_EQ(pins.ever, 3U);
}

TEST(PinnedArena, AtTheMemoryLimitThereIsNoPieceAndNothingIsCounted) {
  const auto memory = limited(2 * kBlockBytes);
  {
    PinnedArena arena(memory, {});
    EXPECT_THAT(arena.try_take(kBlockBytes), SizeIs(kBlockBytes));
    EXPECT_THAT(arena.try_take(2 * kBlockBytes), IsEmpty());
    EXPECT_THAT(arena.try_take(kBlockBytes - 10), SizeIs(kBlockBytes - 10));
    EXPECT_THAT(arena.try_take(1), IsEmpty());
    EXPECT_FALSE(memory->try_add(1));
    arena.clear();
    EXPECT_THAT(arena.try_take(1), SizeIs(1));
  }
  EXPECT_TRUE(memory->try_add(2 * kBlockBytes));
}

}  // namespace
}  // namespace feedrace
