// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/posix_file.h"

#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/testing/temp_dir.h"

namespace feedrace::storage {
namespace {

TEST(FileDescriptor, ClosesOnceAndMoves) {
  const testing::TempDir folder;
  const std::string path = folder.write("file", "x");
  int number = -1;
  {
    FileDescriptor first(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    number = first.get();
    ASSERT_GE(number, 0);
    const FileDescriptor second = std::move(first);
    EXPECT_EQ(second.get(), number);
    EXPECT_NE(fcntl(number, F_GETFD), -1);
  }
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(OpenPosix, LeavesNoFlagThatMakesReadsGiveUp) {
  const testing::TempDir folder;
  AccessTable table({});
  const auto file = open_posix(folder.write("file", "content"), table);
  ASSERT_TRUE(file) << file.error().message;
  const int fd = (*file)->fd();
  EXPECT_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);  // Not for the programs that a trainer starts.
  EXPECT_EQ((*file)->size_bytes(), 7U);
}

TEST(ReadRange, StopsBetweenStepsOnceItIsCancelled) {
  const testing::TempDir folder;
  const std::string path = folder.write("sparse", "");
  std::filesystem::resize_file(path, std::uintmax_t{20} << 20);
  AccessTable table({});
  const OpenFile open = open_whole(path.c_str(), {}, table);
  ASSERT_TRUE(open.cached);
  std::vector<std::byte> destination(std::size_t{20} << 20);
  const std::atomic<std::uint64_t> cancellations{3};

  const RangeRead whole = read_range(open, path, 0, destination, {cancellations, 3});
  EXPECT_EQ(whole.error_number, 0);
  EXPECT_EQ(whole.bytes, destination.size());

  const RangeRead stopped = read_range(open, path, 0, destination, {cancellations, 2});
  EXPECT_EQ(stopped.error_number, ECANCELED);
  EXPECT_LT(stopped.bytes, destination.size());
}

TEST(ReadRange, GivesTheErrorOfTheSystemCall) {
  std::vector<std::byte> destination(16);
  const std::atomic<std::uint64_t> cancellations{0};
  EXPECT_EQ(read_range(OpenFile(), "none", 0, destination, {cancellations, 0}).error_number, EBADF);
}

}  // namespace
}  // namespace feedrace::storage
