// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/device_arena.h"

#include <set>

#include <gmock/gmock.h>

#include "feedrace/cuda/test_stubs.h"

namespace feedrace::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class DeviceArenaTest : public OnStubs {};

TEST_F(DeviceArenaTest, PiecesLieApartOnTheDeviceAndBlocksAreKept) {
  DeviceArena arena(device());
  std::set<std::uint64_t> taken;
  for (int batch = 0; batch < 3; ++batch) {
    arena.clear();
    std::uint64_t end = 0;
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t address = arena.take(kMiB);
      EXPECT_TRUE(feedrace_stub_is_device_memory(
          reinterpret_cast<const void*>(address),  // NOLINT(performance-no-int-to-ptr)
          kMiB));
      EXPECT_TRUE(address >= end || address + kMiB <= end - kMiB) << i;
      end = address + kMiB;
      taken.insert(address);
    }
  }
  EXPECT_EQ(taken.size(), 8U);
  EXPECT_EQ(arena.take(1) % PieceCutter::kAlignment, 0U);
}

TEST_F(DeviceArenaTest, WithoutMemoryItThrowsAndGoesOnWhereThereIsSome) {
  DeviceArena arena(device());
  const std::uint64_t first = arena.take(kMiB);
  feedrace_stub_fail("cuMemAlloc_v2", 1, 2);
  EXPECT_THROW(arena.take(4 * kMiB), DeviceMemoryError);
  arena.clear();
  EXPECT_EQ(arena.take(kMiB), first);
  EXPECT_NE(arena.take(4 * kMiB), first);
}

}  // namespace
}  // namespace feedrace::cuda
