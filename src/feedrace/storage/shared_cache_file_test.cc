// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/shared_cache_file.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "feedrace/core/cores.h"
#include "feedrace/storage/test_shared_cache.h"
#include "feedrace/storage/test_support.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The failure of opening; code and message.
Failure failure_of(const SharedCache::Options& options) {
  const auto cache = SharedCache::open(options);
  if (!cache) return cache.error();
  ADD_FAILURE() << "opened";
  return {};
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
}

bool lock_byte(int fd, short kind, off_t start, off_t length) {
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = length;
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

TEST(SharedCacheFile, IsItsUsersAloneAndGoneWhenTheLastCloses) {
  const MemoryFolder folder;
  auto first = folder.open();
  auto second = folder.open();
  EXPECT_EQ(first->path(), folder.cache_file());
  EXPECT_TRUE(first->in_memory());
  struct stat file{};
  ASSERT_EQ(stat(folder.cache_file().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode, S_IFREG | 0600U);
  EXPECT_GE(static_cast<std::uint64_t>(file.st_blocks) * 512, kMiB);  // All of it is there.
  put(*first, 1, 10);
  first.reset();
  EXPECT_EQ(second->find_or_claim(key_number(1), 10).state, SharedCache::State::kHit);
  EXPECT_EQ(folder.open()->stats().entries, 1U);
  second.reset();
  EXPECT_EQ(folder.file_count(), 0U);
}

TEST(SharedCacheFile, OfSeveralThatCloseAtOnceOneRemovesIt) {
  const MemoryFolder folder;
  for (int i = 0; i < 20; ++i) {
    std::array users = {folder.open(), folder.open(), folder.open()};
    std::barrier start(users.size());
    std::vector<std::thread> threads;
    threads.reserve(users.size());
    for (auto& user : users) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        user.reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(folder.file_count(), 0U);
  }
}

TEST(SharedCacheFile, OfSeveralThatMakeItAtOnceOneWinsAndTheOthersJoin) {
  for (int i = 0; i < 20; ++i) {
    const MemoryFolder folder;
    std::array<std::shared_ptr<SharedCache>, 4> users;
    std::barrier start(users.size());
    std::vector<std::thread> threads;
    threads.reserve(users.size());
    for (auto& user : users) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        user = folder.open();
      });
    }
    for (std::thread& thread : threads) thread.join();
    put(*users[0], 1, 10);
    for (const auto& user : users) {
      EXPECT_EQ(user->find_or_claim(key_number(1), 10).state, SharedCache::State::kHit);
    }
    EXPECT_EQ(folder.file_count(), 1U);
  }
}

TEST(SharedCacheFile, NamesHaveFewCharacters) {
  const MemoryFolder folder;
  for (const std::string& name : {std::string(), std::string("a/b"), std::string("a b"),
                                  std::string(65, 'a'), std::string("a\n")}) {
    const Failure failure = failure_of({name, kMiB, folder.path()});
    EXPECT_EQ(failure.code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(failure.message, AllOf(HasSubstr("1 to 64"), Not(HasSubstr("\n"))));
  }
  EXPECT_TRUE(SharedCache::open({"Az.09_-" + std::string(57, 'a'), kMiB, folder.path()}));
}

TEST(SharedCacheFile, TheLimitHasBounds) {
  const MemoryFolder folder;
  EXPECT_THAT(failure_of(folder.options(kMiB - 1)).message, HasSubstr("1048575 bytes"));
  EXPECT_EQ(failure_of(folder.options(~std::uint64_t{0})).code, ErrorCode::kInvalidArgument);
  const auto available = available_memory_bytes();
  ASSERT_TRUE(available);
  const Failure failure = failure_of(folder.options(*available));
  EXPECT_EQ(failure.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(failure.message, HasSubstr("more than half; lower the limit"));
  EXPECT_EQ(folder.file_count(), 0U);
}

TEST(SharedCacheFile, AnotherLimitNamesBoth) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  const Failure failure = failure_of(folder.options(2 * kMiB));
  EXPECT_EQ(failure.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("1048576"), HasSubstr("2097152")));
}

TEST(SharedCacheFile, AFolderThatIsMissingIsNotFound) {
  const MemoryFolder folder;
  const Failure failure = failure_of({"test", kMiB, folder.path() + "/none"});
  EXPECT_EQ(failure.code, ErrorCode::kNotFound);
  EXPECT_THAT(failure.message, HasSubstr("/none"));
}

TEST(SharedCacheFile, AFileThatIsNoCacheStays) {
  const MemoryFolder folder;
  for (const std::string& content : {std::string(), std::string(100'000, 'x')}) {
    write_file(folder.cache_file(), content);
    const Failure failure = failure_of(folder.options());
    EXPECT_EQ(failure.code, ErrorCode::kIo);
    EXPECT_THAT(failure.message, HasSubstr("is no cache of samples"));
    EXPECT_EQ(std::filesystem::file_size(folder.cache_file()), content.size());
  }
}

TEST(SharedCacheFile, ACutCacheThatNobodyUsesIsMadeAnew) {
  const MemoryFolder folder;
  write_file(folder.cache_file(), "feedrace cache\n" + std::string(49, '\0'));
  EXPECT_EQ(folder.open()->stats().entries, 0U);
}

TEST(SharedCacheFile, ACutCacheInUseIsAnError) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  std::filesystem::resize_file(folder.cache_file(), kMiB);
  const Failure failure = failure_of(folder.options());
  EXPECT_EQ(failure.code, ErrorCode::kIo);
  EXPECT_THAT(failure.message, HasSubstr("has 1048576 bytes"));
  std::filesystem::resize_file(folder.cache_file(), shape_of(kMiB).file_bytes);
}

TEST(SharedCacheFile, ACacheOfAnotherLayoutInUseIsUnsupported) {
  const MemoryFolder folder;
  const auto file = CacheFile::open(folder.cache_file(), kMiB);
  ASSERT_TRUE(file) << file.error().message;
  (*file)->header().head.version = 77;
  const Failure failure = failure_of(folder.options());
  EXPECT_EQ(failure.code, ErrorCode::kUnsupported);
  EXPECT_THAT(failure.message, HasSubstr("layout 77"));
}

TEST(SharedCacheFile, WhatOthersMayWriteIsNotUsed) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  ASSERT_EQ(chmod(folder.cache_file().c_str(), 0660), 0);
  const Failure failure = failure_of(folder.options());
  EXPECT_EQ(failure.code, ErrorCode::kIo);
  EXPECT_THAT(failure.message, HasSubstr("mode 0660"));
}

TEST(SharedCacheFile, LinksAndFoldersAreNotUsed) {
  const MemoryFolder folder;
  std::filesystem::create_symlink("/dev/null", folder.cache_file());
  EXPECT_THAT(failure_of(folder.options()).message, HasSubstr("can't be opened"));
  std::filesystem::remove(folder.cache_file());
  std::filesystem::create_directory(folder.cache_file());
  EXPECT_THAT(failure_of(folder.options()).message, HasSubstr("can't be opened"));
  EXPECT_EQ(mkfifo(folder.cache_file("pipe").c_str(), 0600), 0);
  EXPECT_THAT(failure_of({"pipe", kMiB, folder.path()}).message, HasSubstr("not a regular file"));
}

TEST(SharedCacheFile, TheFileOfAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const MemoryFolder folder;
  const auto cache = folder.open();
  ASSERT_EQ(chown(folder.cache_file().c_str(), 12'345, 0), 0);
  const Failure failure = failure_of(folder.options());
  EXPECT_EQ(failure.code, ErrorCode::kIo);
  EXPECT_THAT(failure.message, HasSubstr("belongs to user 12345 and this is user 0"));
}

TEST(SharedCacheFile, ServesUsersWithoutRights) {
  if (geteuid() != 0) GTEST_SKIP() << "the other tests run without rights already";
  const MemoryFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 01777), 0);
  EXPECT_EQ(in_child([&] {
              become_nobody();
              const auto cache = folder.open();
              put(*cache, 1, 10);
              return std::to_string(folder.open()->stats().entries);
            }),
            "1");
  EXPECT_EQ(folder.file_count(), 0U);
}

TEST(SharedCacheFile, NoRoomIsFoundWhenItIsMade) {
  const MemoryFolder folder;
  const std::string small = folder.path() + "/small";
  std::filesystem::create_directory(small);
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=2m") != 0) {
    GTEST_SKIP() << "a small file system can't be mounted here";
  }
  const Failure failure = failure_of({"test", 3 * kMiB, small});
  const bool is_left = !std::filesystem::is_empty(small);
  // Another may take the room after the question for it.
  write_file(small + "/filler", std::string(kMiB, 'x'));
  const Failure again = failure_of({"test", 3 * kMiB / 2, small});
  EXPECT_EQ(umount(small.c_str()), 0);
  EXPECT_EQ(failure.code, ErrorCode::kIo);
  EXPECT_THAT(failure.message,
              AllOf(HasSubstr("needs 3.2 MB and 2.1 MB are free"), HasSubstr("lower the limit")));
  EXPECT_THAT(again.message, HasSubstr("are free there"));
  EXPECT_FALSE(is_left);
}

TEST(SharedCacheFile, OutsideOfMemoryItSaysSo) {
  const testing::TempDir folder;
  struct stat memory{};
  struct stat here{};
  ASSERT_EQ(stat("/dev/shm", &memory), 0);
  ASSERT_EQ(stat(folder.path().c_str(), &here), 0);
  if (memory.st_dev == here.st_dev) GTEST_SKIP() << "temporary folders are in memory here";
  const auto cache = SharedCache::open({"test", kMiB, folder.path().string()});
  if (!cache && cache.error().code == ErrorCode::kUnsupported)
    GTEST_SKIP() << cache.error().message;
  ASSERT_TRUE(cache) << cache.error().message;
  put(**cache, 1, 10);
  EXPECT_EQ((*cache)->find_or_claim(key_number(1), 10).state, SharedCache::State::kHit);
}

TEST(SharedCacheFile, AMakerThatHangsIsGivenUpAndOneThatDiedIsReplaced) {
  const MemoryFolder folder;
  write_file(folder.cache_file(), "feedrace cache\n" + std::string(49, '\0'));
  {
    const FileDescriptor maker(open(folder.cache_file().c_str(), O_RDWR));
    ASSERT_TRUE(lock_byte(maker.get(), F_WRLCK, 0, 1));
    const auto file = CacheFile::open(folder.cache_file(), kMiB, std::chrono::milliseconds(30));
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::kIo);
    EXPECT_THAT(file.error().message, HasSubstr("gets no further"));
  }
  EXPECT_TRUE(CacheFile::open(folder.cache_file(), kMiB));
}

TEST(SharedCacheFile, TakesSoManyUsersAndNoMore) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  const FileDescriptor others(open(folder.cache_file().c_str(), O_RDWR));
  ASSERT_TRUE(lock_byte(others.get(), F_WRLCK, 2, kSeats - 2));
  const auto last = folder.open();
  EXPECT_EQ(last->find_or_claim(key_number(1), 10).state, SharedCache::State::kClaimed);
  const Failure failure = failure_of(folder.options());
  EXPECT_EQ(failure.code, ErrorCode::kIo);
  EXPECT_THAT(failure.message, HasSubstr("1024 users"));
}

TEST(SharedCacheFile, RemovedCachesServeThoseWhoHaveThem) {
  const MemoryFolder folder;
  const auto old = folder.open();
  put(*old, 1, 10);
  ASSERT_TRUE(SharedCache::remove("test", folder.path()));
  {
    const auto made = folder.open(2 * kMiB);
    EXPECT_EQ(made->stats().entries, 0U);
    EXPECT_EQ(old->find_or_claim(key_number(1), 10).state, SharedCache::State::kHit);
  }
  const Result<void> again = SharedCache::remove("test", folder.path());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(SharedCache::remove("a/b").error().code, ErrorCode::kInvalidArgument);
}

TEST(SharedCacheFile, ClosingARemovedCacheLeavesItsSuccessor) {
  const MemoryFolder folder;
  auto old = folder.open();
  ASSERT_TRUE(SharedCache::remove("test", folder.path()));
  const auto made = folder.open();
  old.reset();
  EXPECT_EQ(folder.file_count(), 1U);
}

static_assert(shape_of(kMiB).slot_count == 64);
static_assert(shape_of(kMiB + 5000).payload_bytes == kMiB + 4096);
static_assert(shape_of(3 * kMiB).slot_count == 256);
static_assert(shape_of(kMostLimitBytes).file_bytes > kMostLimitBytes);

}  // namespace
}  // namespace feedrace::storage
