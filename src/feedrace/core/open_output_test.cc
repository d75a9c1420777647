// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/open_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <gtest/gtest.h>

#include "feedrace/testing/temp_dir.h"

namespace feedrace {
namespace {

TEST(OpenOutput, MakesAFile) {
  const testing::TempDir dir;
  const int fd = open_output(dir / "new", O_CREAT);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(write(fd, "abc", 3), 3);
  close(fd);
  EXPECT_EQ(testing::read_file(dir / "new"), "abc");
}

TEST(OpenOutput, DoesNotWaitForTheReaderOfAPipe) {
  const testing::TempDir dir;
  const std::string pipe = dir / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  errno = 0;
  EXPECT_EQ(open_output(pipe, 0), -1);
  EXPECT_EQ(errno, ENXIO);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  const int fd = open_output(pipe, 0);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);  // A full pipe is waited for.
  close(fd);
  close(reader);
}

}  // namespace
}  // namespace feedrace
