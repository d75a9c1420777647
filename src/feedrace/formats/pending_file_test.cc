// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/pending_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

using ::testing::HasSubstr;
using testing::read_file;
using testing::TempDir;

std::size_t count_of_files(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(PendingFile, IsNotSeenUntilItIsWhole) {
  const TempDir dir;
  const std::string path = dir.write("list", "old");
  Result<PendingFile> file = PendingFile::create(path);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->append("new "));
  ASSERT_TRUE(file->append("content"));
  EXPECT_EQ(read_file(path), "old");
  ASSERT_TRUE(file->publish());
  EXPECT_EQ(read_file(path), "new content");
  EXPECT_EQ(count_of_files(dir.path()), 1);
}

TEST(PendingFile, LeavesNothingWhereItIsDropped) {
  const TempDir dir;
  const std::string path = dir.write("list", "old");
  {
    Result<PendingFile> file = PendingFile::create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->append("new"));
    const PendingFile moved = *std::move(file);  // Removes it once, at its own end.
    EXPECT_EQ(count_of_files(dir.path()), 2);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(count_of_files(dir.path()), 1);
}

TEST(PendingFile, InAFolderTakesTheNameThatItIsGiven) {
  const TempDir dir;
  dir.write(".new.tmp", "of a run that died, and longer");
  const Fd folder(open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Result<PendingFile> file = PendingFile::create_in(folder.get(), dir.path(), "new", ".new.tmp");
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->append("whole"));
  ASSERT_TRUE(file->publish());
  EXPECT_EQ(read_file(dir / "new"), "whole");
  EXPECT_EQ(count_of_files(dir.path()), 1);
}

TEST(PendingFile, WritesIntoAPipeWhereItIs) {
  const TempDir dir;
  const std::string path = dir / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const Fd reader(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(put_file(path, "lines"));
  std::string text(16, '\0');
  ASSERT_EQ(read(reader.get(), text.data(), text.size()), 5);
  EXPECT_EQ(text.substr(0, 5), "lines");
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

TEST(PendingFile, SaysOfAFullDiskWhatToDo) {
  const Result<void> put = put_file("/dev/full", "lines");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::kIo);
  EXPECT_EQ(put.error().message,
            "/dev/full: write: No space left on device; free space, or write elsewhere");
}

TEST(PendingFile, SaysOfAnAbsentFolderWhatToDo) {
  const TempDir dir;
  const Result<void> put = put_file(dir / "none/list", "lines");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::kIo);
  EXPECT_THAT(put.error().message, HasSubstr("none/list: create: No such file or directory; make "
                                             "the folder first"));
}

TEST(PendingFile, SaysOfALimitOfFileSizesWhatToDo) {
  const TempDir dir;
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 10;
  const auto old_action = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Result<void> put = put_file(dir / "list", "longer than ten bytes");
  setrlimit(RLIMIT_FSIZE, &old_limit);
  signal(SIGXFSZ, old_action);
  ASSERT_FALSE(put);
  EXPECT_THAT(put.error().message, HasSubstr("File too large; files may not be this large here: "
                                             "raise ulimit -f"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(WriteFailure, HasAnAdviceForEachReason) {
  EXPECT_THAT(write_failure("/a/b", "create", EROFS).message, HasSubstr("mounted read-only"));
  EXPECT_THAT(write_failure("/a/b", "create", EACCES).message, HasSubstr("get the right"));
  EXPECT_THAT(write_failure("/a/b", "write", EDQUOT).message, HasSubstr("free space"));
  EXPECT_THAT(write_failure("/a/b", "fsync", EIO).message, HasSubstr("look at the disk"));
}

}  // namespace
}  // namespace feedrace::formats
