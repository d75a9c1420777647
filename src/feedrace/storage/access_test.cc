// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/access.h"

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/storage/posix_file.h"
#include "feedrace/storage/test_support.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

host::FileSystem disk() {
  host::FileSystem facts;
  facts.type = "ext4";
  facts.mount_point = "/data";
  facts.has_exact_ends = true;
  facts.direct_alignment_bytes = 512;
  facts.has_uncached_reads = true;
  return facts;
}

host::FileSystem without_direct() {
  host::FileSystem facts = disk();
  facts.type = "fuse";
  facts.direct_alignment_bytes = 0;
  facts.direct_refusal = "fuse: O_DIRECT open fails";
  return facts;
}

host::FileSystem memory() {
  host::FileSystem facts;
  facts.type = "tmpfs";
  facts.is_in_memory = true;
  facts.direct_refusal = "tmpfs is memory";
  return facts;
}

/// A table whose file systems are what the test says, and what it was asked.
struct AskedTable {
  explicit AskedTable(Access wanted, host::FileSystem told = disk(), bool strict = false)
      : facts(std::move(told)), table({wanted, strict, nullptr}, [this](const std::string& path) {
          asked.push_back(path);
          if (when_asked) when_asked();
          return facts;
        }) {}

  host::FileSystem facts;
  std::vector<std::string> asked;
  std::function<void()> when_asked;
  AccessTable table;
};

std::shared_ptr<FileSystemAccess> access_of(Access wanted, const host::FileSystem& facts,
                                            const std::shared_ptr<FallbackLog>& log,
                                            bool strict = false) {
  return std::make_shared<FileSystemAccess>(AccessOptions{wanted, strict, log}, facts);
}

/// The only sentence, which must have been counted `count` times.
std::string only_sentence(const FallbackLog& log, std::uint64_t count) {
  const auto counts = log.counts();
  EXPECT_EQ(counts.size(), 1U);
  if (counts.size() != 1) return {};
  EXPECT_EQ(counts[0].count, count);
  return counts[0].sentence;
}

TEST(AccessTable, AsksEachFileSystemOnce) {
  AskedTable world(Access::kDirect);
  const auto first = world.table.of_device(1, "/data/a");
  EXPECT_EQ(world.table.of_device(1, "/data/b"), first);
  EXPECT_NE(world.table.of_device(2, "/other/c"), first);
  world.table.of_device(2, "/other/d");
  EXPECT_THAT(world.asked, ElementsAre("/data/a", "/other/c"));
}

TEST(AccessTable, AsksNothingForThePageCache) {
  AskedTable world(Access::kPageCache);
  const auto access = world.table.of_device(1, "/data/a");
  EXPECT_THAT(world.asked, IsEmpty());
  EXPECT_FALSE(access->is_direct() || access->is_uncached() || access->drops_pages());
  EXPECT_FALSE(access->count_fallback());
  EXPECT_THAT(world.table.log().counts(), IsEmpty());
}

TEST(AccessTable, ReadsWhatCannotBeAskedThroughThePageCache) {
  AccessTable table({Access::kDirect, false, nullptr}, [](const std::string&) {
    return Result<host::FileSystem>(Failure{ErrorCode::kIo, "no"});
  });
  const auto access = table.of_device(1, "/data/a");
  EXPECT_FALSE(access->is_direct());
  EXPECT_EQ(access->alignment_bytes(), 1U);
  access->count_fallback();
  EXPECT_EQ(only_sentence(table.log(), 1),
            "O_DIRECT is not used on this file system: it could not be asked; reads go through the "
            "page cache, whose pages are given up behind");
}

TEST(AccessTable, AsksForAFolderAtItsFirstFile) {
  const testing::TempDir dir;
  AskedTable world(Access::kDirect);
  const std::string a = dir.write("c0/a", "a");
  const std::string b = dir.write("c0/b", "b");
  const std::string c = dir.write("c1/c", "c");
  EXPECT_EQ(world.table.of_folder((dir / "c0/missing").c_str()), nullptr);
  const auto first = world.table.of_folder(a.c_str());
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(world.table.of_folder(b.c_str()), first);
  EXPECT_EQ(world.table.of_folder((dir / "c0/missing").c_str()), first);  // No look any more.
  EXPECT_EQ(world.table.of_folder(c.c_str()), first);                     // The same device.
  EXPECT_THAT(world.asked, ElementsAre(a));
}

TEST(AccessTable, TrustsNoFolderThatHasLinks) {
  const testing::TempDir dir;
  AskedTable world(Access::kDirect);
  const std::string file = dir.write("c0/file", "a");
  const std::string link = dir / "c0/link";
  std::filesystem::create_symlink(file, link);
  EXPECT_EQ(world.table.of_folder(link.c_str()), nullptr);
  EXPECT_EQ(world.table.of_folder(file.c_str()), nullptr);
  EXPECT_THAT(world.asked, IsEmpty());
  const std::string other = dir.write("c1/file", "a");
  EXPECT_NE(world.table.of_folder(other.c_str()), nullptr);
  world.table.folder_has_links(other.c_str());
  EXPECT_EQ(world.table.of_folder(other.c_str()), nullptr);
}

TEST(AccessTable, JudgesNoFolderByWhatIsNoFile) {
  const testing::TempDir dir;
  AskedTable world(Access::kDirect);
  dir.write("folder/inner/file", "a");
  EXPECT_EQ(world.table.of_folder((dir / "folder/inner").c_str()), nullptr);
  ASSERT_EQ(mkfifo((dir / "folder/fifo").c_str(), 0600), 0);
  EXPECT_EQ(world.table.of_folder((dir / "folder/fifo").c_str()), nullptr);
  EXPECT_NE(world.table.of_folder(dir.write("folder/file", "a").c_str()), nullptr);
}

TEST(FileSystemAccess, CountsReadsThatGoAnotherWayAndSaysWhy) {
  const std::pair<host::FileSystem, const char*> kCases[] = {
      {without_direct(),
       "O_DIRECT is not used on fuse at /data: fuse: O_DIRECT open fails; reads go through the "
       "page cache and leave no pages there"},
      {memory(), "O_DIRECT is not used on tmpfs: tmpfs is memory; reads copy out of that memory"},
  };
  for (const auto& [facts, sentence] : kCases) {
    const auto log = std::make_shared<FallbackLog>();
    const auto access = access_of(Access::kDirect, facts, log);
    EXPECT_THAT(log->counts(), IsEmpty());  // Nothing was read yet.
    EXPECT_FALSE(access->count_fallback());
    EXPECT_FALSE(access->count_fallback());
    EXPECT_EQ(only_sentence(*log, 2), sentence);
    EXPECT_EQ(access->alignment_bytes(), 1U);
  }
}

TEST(FileSystemAccess, CountsWhatIsNotAlignedWhereDirectReadsAre) {
  const auto log = std::make_shared<FallbackLog>();
  const auto access = access_of(Access::kDirect, disk(), log);
  EXPECT_TRUE(access->is_direct());
  EXPECT_EQ(access->alignment_bytes(), 512U);
  EXPECT_FALSE(access->count_fallback());
  EXPECT_THAT(only_sentence(*log, 1), HasSubstr("not a multiple of the file's alignment"));
}

TEST(FileSystemAccess, GivesPagesUpWhereTheKernelCannot) {
  const auto log = std::make_shared<FallbackLog>();
  const auto good = access_of(Access::kUncached, disk(), log);
  EXPECT_TRUE(good->is_uncached());
  EXPECT_FALSE(good->is_direct() || good->drops_pages());
  good->count_fallback();
  EXPECT_THAT(log->counts(), IsEmpty());

  host::FileSystem facts = disk();
  facts.has_uncached_reads = false;
  const auto without = access_of(Access::kUncached, facts, log);
  EXPECT_FALSE(without->is_uncached());
  EXPECT_TRUE(without->drops_pages());
  without->count_fallback();
  EXPECT_THAT(only_sentence(*log, 1), HasSubstr("not supported by ext4 at /data; pages are given"));
}

TEST(FileSystemAccess, HasNoPagesToGiveUpInMemory) {
  const auto log = std::make_shared<FallbackLog>();
  const auto access = access_of(Access::kUncached, memory(), log, /*strict=*/true);
  EXPECT_FALSE(access->is_uncached() || access->drops_pages());
  EXPECT_FALSE(access->count_fallback());
  EXPECT_THAT(log->counts(), IsEmpty());
}

TEST(FileSystemAccess, RefusesOtherWaysWhenStrict) {
  const auto log = std::make_shared<FallbackLog>();
  const auto reason = access_of(Access::kDirect, memory(), log, true)->count_fallback();
  ASSERT_TRUE(reason);
  EXPECT_EQ(*reason, only_sentence(*log, 1));
  const auto unaligned = access_of(Access::kDirect, disk(), log, true)->count_fallback();
  ASSERT_TRUE(unaligned);
  EXPECT_THAT(*unaligned, HasSubstr("align them"));
}

TEST(FileSystemAccess, GivesUpDirectReadsThatFailOnce) {
  const auto log = std::make_shared<FallbackLog>();
  const auto access = access_of(Access::kDirect, disk(), log);
  access->direct_failed(EINVAL);
  access->direct_failed(EIO);  // Another read that was on its way: no second sentence.
  EXPECT_FALSE(access->is_direct());
  EXPECT_EQ(access->alignment_bytes(), 1U);
  EXPECT_TRUE(access->is_uncached());
  access->count_fallback();
  access->count_fallback();
  EXPECT_EQ(only_sentence(*log, 2),
            "O_DIRECT is not used on ext4 at /data: it is offered, but fails (read: Invalid "
            "argument); reads go through the page cache and leave no pages there");
}

TEST(FileSystemAccess, GivesUpUncachedReadsThatFailOnce) {
  const auto log = std::make_shared<FallbackLog>();
  const auto access = access_of(Access::kUncached, disk(), log);
  access->uncached_failed();
  access->uncached_failed();
  EXPECT_FALSE(access->is_uncached());
  EXPECT_TRUE(access->drops_pages());
  access->count_fallback();
  EXPECT_THAT(only_sentence(*log, 1), HasSubstr("(RWF_DONTCACHE) fail on ext4 at /data"));

  // Where direct reads were wanted, those are what a message is about.
  const auto direct = access_of(Access::kDirect, disk(), std::make_shared<FallbackLog>());
  direct->uncached_failed();
  EXPECT_TRUE(direct->is_direct());
  EXPECT_FALSE(direct->is_uncached());
  EXPECT_TRUE(direct->drops_pages());
}

// Whoever sees that a way was given up must find why, however shortly after.
TEST(FileSystemAccess, HasItsReasonBeforeItGivesAWayUp) {
  struct Case {
    Access wanted;
    bool (FileSystemAccess::*is_open)() const noexcept;
    std::function<void(FileSystemAccess&)> give_up;
    const char* reason;
  };
  const Case kCases[] = {
      {Access::kDirect, &FileSystemAccess::is_direct,
       [](FileSystemAccess& access) { access.direct_failed(EINVAL); }, "O_DIRECT is not used on"},
      {Access::kUncached, &FileSystemAccess::is_uncached,
       [](FileSystemAccess& access) { access.uncached_failed(); }, "(RWF_DONTCACHE) fail on"},
  };
  for (const auto& [wanted, is_open, give_up, reason] : kCases) {
    for (int round = 0; round < 300; ++round) {
      const auto access = access_of(wanted, disk(), std::make_shared<FallbackLog>(), true);
      std::optional<std::string> seen;
      std::atomic<bool> is_watching = false;
      std::thread reader([&, is_open = is_open] {
        is_watching = true;
        while ((access.get()->*is_open)()) {
        }
        seen = access->count_fallback();
      });
      while (!is_watching) std::this_thread::yield();
      give_up(*access);
      reader.join();
      ASSERT_TRUE(seen) << "round " << round;
      ASSERT_THAT(*seen, HasSubstr(reason)) << "round " << round;
    }
  }
}

TEST(OpenFileRoute, FollowsTheAlignmentAndFailsWhenStrict) {
  const testing::TempDir dir;
  const std::string path = dir.write("file", known_content(100'000));
  for (const bool strict : {false, true}) {
    AskedTable world(Access::kDirect, disk(), strict);
    const auto file = open_posix(path, world.table);
    ASSERT_TRUE(file) << file.error().message;
    if (!(*file)->open().direct) GTEST_SKIP() << "no O_DIRECT where temporary files go";
    const HostMemory memory(8192);
    const auto route = [&](std::uint64_t offset, std::size_t at, std::size_t size) {
      return (*file)->open().route(path, offset, memory.bytes().subspan(at, size));
    };
    EXPECT_EQ(route(512, 1024, 512)->path, Path::kDirect);
    EXPECT_EQ(route(7, 0, 0)->path, Path::kDirect);  // Reads nothing on any way.
    EXPECT_THAT(world.table.log().counts(), IsEmpty());
    for (const auto& odd : {route(1, 0, 512), route(0, 1, 512), route(0, 0, 511)}) {
      EXPECT_EQ(static_cast<bool>(odd), !strict);
      if (odd) {
        EXPECT_EQ(odd->path, Path::kUncached);
        EXPECT_EQ(odd->fd, (*file)->fd());
      } else {
        EXPECT_EQ(odd.error().code, ErrorCode::kUnsupported);
        EXPECT_THAT(odd.error().message, HasSubstr(path + ": reads whose offset"));
      }
    }
    only_sentence(world.table.log(), 3);
    // The rest of a read that was let through is never refused.
    EXPECT_TRUE((*file)->open().route(path, 3, memory.bytes(), /*is_rest=*/true));
  }
}

TEST(OpenPosix, NeverReadsAnotherFileThatTookItsPlace) {
  const testing::TempDir dir;
  const std::string path = dir.write("file", known_content(4096));
  const std::string other = dir.write("other", std::string(4096, 'x'));
  AskedTable world(Access::kDirect);
  // Between the first descriptor and the one with O_DIRECT.
  world.when_asked = [&] { std::filesystem::rename(other, path); };
  const auto file = open_posix(path, world.table);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_FALSE((*file)->open().direct);
  EXPECT_EQ((*file)->alignment_bytes(), 1U);
  const HostMemory memory(4096);
  const std::atomic<std::uint64_t> never{0};
  const RangeRead read = read_range((*file)->open(), path, 0, memory.bytes(), {never, 0});
  EXPECT_EQ(read.bytes, 4096U);
  EXPECT_TRUE(is_known(memory.bytes(), 0));
}

TEST(OpenWhole, FollowsALinkThatTookTheFilesPlace) {
  const testing::TempDir dir;
  const testing::TempDir elsewhere("/dev/shm");
  const std::string path = dir.write("file", "old");
  const std::string target = elsewhere.write("target", known_content(4096));
  AskedTable world(Access::kDirect);
  const HostMemory memory(8192);
  // Behind the look at the file, before it is opened.
  world.when_asked = [&, is_first = true]() mutable {
    world.facts = is_first ? disk() : storage::memory();
    if (!std::exchange(is_first, false)) return;
    std::filesystem::remove(path);
    std::filesystem::create_symlink(target, path);
  };
  const OpenFile open = open_whole(path.c_str(), memory.bytes(), world.table);
  EXPECT_FALSE(open.direct);
  ASSERT_TRUE(open.cached);
  EXPECT_EQ(open.size_bytes, 4096U);
  ASSERT_NE(open.access, nullptr);
  EXPECT_FALSE(open.access->is_direct());
  EXPECT_EQ(world.table.of_folder(path.c_str()), nullptr);  // It has links.
}

TEST(DirectWhole, WantsAlignmentAndExactEnds) {
  const testing::TempDir dir;
  const std::string path = dir.write("file", "content");
  const HostMemory memory(8192);
  AskedTable world(Access::kDirect);
  const auto is_direct = [&](AskedTable& in, std::size_t at, std::size_t size) {
    return direct_whole(path.c_str(), memory.bytes().subspan(at, size), in.table) != nullptr;
  };
  EXPECT_TRUE(is_direct(world, 512, 1024));
  EXPECT_FALSE(is_direct(world, 511, 1024));
  EXPECT_FALSE(is_direct(world, 512, 1023));
  EXPECT_FALSE(is_direct(world, 0, 0));
  host::FileSystem vague = disk();
  vague.has_exact_ends = false;  // A short read says nothing there.
  AskedTable other(Access::kDirect, vague);
  EXPECT_FALSE(is_direct(other, 512, 1024));
  AskedTable cached(Access::kPageCache);
  EXPECT_FALSE(is_direct(cached, 512, 1024));
}

}  // namespace
}  // namespace feedrace::storage
