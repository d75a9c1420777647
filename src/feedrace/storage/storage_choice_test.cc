// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/storage_choice.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/host/page_cache.h"
#include "feedrace/storage/posix_file.h"
#include "feedrace/storage/test_support.h"
#include "feedrace/storage/uring_ring.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The message of the Error that `choose_storage` throws, with its code in front.
std::string refusal(const StorageNeeds& needs) {
  try {
    return "chose " + choose_storage(needs).name;
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
}

StorageNeeds needs_of(const std::string& backend, std::vector<std::string> files = {},
                      PageCache page_cache = PageCache::kAuto) {
  StorageNeeds needs;
  needs.backend = backend;
  needs.file_count = files.size();
  needs.files = std::move(files);
  needs.page_cache = page_cache;
  return needs;
}

TEST(ChooseStorage, KnowsThreeNames) {
  EXPECT_THAT(backend_names(), ElementsAre("uring", "direct", "buffered"));
}

TEST(ChooseStorage, RefusesAnUnknownNameAndListsTheKnownOnes) {
  EXPECT_EQ(refusal(needs_of("urin\ng")),
            "invalid_argument: storage back end: \"urin\\x0ag\" is not known; use auto, uring, "
            "direct, buffered");
}

TEST(ChooseStorage, RefusesQueueDepthsOutOfRange) {
  for (const std::size_t depth : {std::size_t{0}, std::size_t{4097}, std::size_t{1'000'000}}) {
    StorageNeeds needs = needs_of("auto");
    needs.queue_depth = depth;
    EXPECT_EQ(refusal(needs), "invalid_argument: storage back end: a queue depth of " +
                                  std::to_string(depth) + " is out of range; use 1 to 4096");
  }
}

TEST(ChooseStorage, RefusesToKeepPagesThatDirectReadsNeverMake) {
  EXPECT_THAT(refusal(needs_of("direct", {}, PageCache::kKeep)),
              StartsWith("invalid_argument: storage back end: direct reads past the page cache"));
}

TEST(CreateBackend, TakesTheSmallestAndTheLargestQueueDepth) {
  for (const Engine engine : {Engine::kUring, Engine::kThreads}) {
    for (const std::size_t depth : {1, 4096}) {
      BackendOptions options;
      options.queue_depth = depth;
      options.thread_count = 2;
      const auto made = create_backend(engine, options);
      if (!made && engine == Engine::kUring) continue;
      ASSERT_TRUE(made) << made.error().message;
      EXPECT_EQ((*made)->limits().max_in_flight, depth);
    }
  }
}

TEST(CreateBackend, TheDefaultQueueDepthIs32) {
  EXPECT_EQ((*create_backend(Engine::kThreads))->limits().max_in_flight, 32U);
}

/// A file of `mib` on the disk that temporary folders lie on, and what it is to be.
class Choice : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_.write("file", known_content(1 << 20));
    const auto asked = host::probe_file_system(path_);
    ASSERT_TRUE(asked) << asked.error().message;
    file_system_ = *asked;
  }
  StorageChoice choose(const std::string& backend, PageCache page_cache, std::size_t memory_bytes) {
    StorageProbe probe;
    probe.available_memory_bytes = memory_bytes;
    return choose_storage(needs_of(backend, {path_}, page_cache), probe);
  }
  static Access access_of(const StorageChoice& choice) { return choice.devices[0].options.access; }
  bool has_direct() const { return file_system_.direct_alignment_bytes > 0; }

  static constexpr std::size_t kPlenty = std::size_t{1} << 30;
  static constexpr std::size_t kLittle = 1 << 20;
  testing::TempDir folder_;
  std::string path_;
  host::FileSystem file_system_;
};

TEST_F(Choice, KeepsPagesOfDataThatFitIntoMemory) {
  const StorageChoice choice = choose("auto", PageCache::kAuto, kPlenty);
  EXPECT_EQ(access_of(choice), Access::kPageCache);
  EXPECT_THAT(choice.reason, HasSubstr("the data (1.0 MB) fit into half of the free memory "
                                       "(536.9 MB), so what is read again comes out of it"));
}

TEST_F(Choice, ReadsPastThePageCacheWhatDoesNotFit) {
  if (!has_direct()) GTEST_SKIP() << file_system_.direct_refusal;
  const FileDescriptor fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  fdatasync(fd.get());
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  const StorageChoice choice = choose("auto", PageCache::kAuto, kLittle);
  EXPECT_EQ(access_of(choice), Access::kDirect);
  EXPECT_THAT(choice.reason, HasSubstr("O_DIRECT of " + file_system_.type));
  EXPECT_THAT(choice.reason, HasSubstr("do not fit into half of the free memory (524.3 kB)"));
}

TEST_F(Choice, UsesPagesThatAreThereAlready) {
  const FileDescriptor fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!host::residency(fd.get(), 0, 0)) GTEST_SKIP() << "cachestat is not to be had";
  testing::read_file(path_);
  const StorageChoice choice = choose("auto", PageCache::kAuto, kLittle);
  EXPECT_EQ(access_of(choice), Access::kPageCache);
  EXPECT_THAT(choice.reason, HasSubstr("% of the data are cached"));
}

TEST_F(Choice, DoesWhatTheUserSays) {
  EXPECT_EQ(access_of(choose("auto", PageCache::kKeep, kLittle)), Access::kPageCache);
  const Access dropped = has_direct()                ? Access::kDirect
                         : file_system_.is_in_memory ? Access::kPageCache
                                                     : Access::kUncached;
  EXPECT_EQ(access_of(choose("auto", PageCache::kDrop, kPlenty)), dropped);
  EXPECT_EQ(access_of(choose("uring", PageCache::kDrop, kPlenty)), dropped);
  EXPECT_EQ(access_of(choose("direct", PageCache::kAuto, kPlenty)), Access::kDirect);
  EXPECT_EQ(access_of(choose("buffered", PageCache::kDrop, kPlenty)),
            file_system_.is_in_memory ? Access::kPageCache : Access::kUncached);
}

TEST_F(Choice, SqpollTakesACoreOnlyWhereThereAreSome) {
  StorageNeeds needs = needs_of("auto", {path_});
  for (const std::size_t spare : {0, 7, 8}) {
    needs.spare_cores = spare;
    const StorageChoice choice = choose_storage(needs);
    const bool has_uring = choice.devices[0].engine == Engine::kUring;
    EXPECT_EQ(choice.devices[0].options.sqpoll, has_uring && spare >= kSqpollSpareCores);
  }
  needs.sqpoll = false;
  EXPECT_FALSE(choose_storage(needs).devices[0].options.sqpoll);
}

TEST_F(Choice, SaysWhyThereIsNoPolling) {
  StorageNeeds needs = needs_of("uring", {path_}, PageCache::kKeep);
  needs.iopoll = true;
  const StorageChoice choice = choose_storage(needs);
  EXPECT_FALSE(choice.devices[0].options.iopoll);
  EXPECT_TRUE(choice.is_fallback);
  EXPECT_THAT(
      choice.reason,
      HasSubstr("IOPOLL can't be had: it needs O_DIRECT, so page_cache=drop; leave it out"));
}

TEST(ChooseStorage, TmpfsIsNotReadDirectly) {
  const testing::TempDir folder("/dev/shm");
  const std::string path = folder.write("file", known_content(4096));
  const StorageChoice choice = choose_storage(needs_of("direct", {path}));
  EXPECT_TRUE(choice.is_fallback);
  EXPECT_THAT(choice.reason, HasSubstr("O_DIRECT can't be had: tmpfs"));
  EXPECT_EQ(choose_storage(needs_of("auto", {path}, PageCache::kDrop)).devices[0].options.access,
            Access::kPageCache);
}

TEST(ChooseStorage, EachDeviceOfShardsGetsABackEndOfItsOwn) {
  const testing::TempDir on_disk;
  const testing::TempDir in_memory("/dev/shm");
  StorageNeeds needs = needs_of(
      "auto", {on_disk.write("a", "1"), in_memory.write("b", "2"), on_disk.write("c", "3")});
  EXPECT_EQ(choose_storage(needs).devices.size(), 1U);
  needs.are_shards = true;
  const StorageChoice choice = choose_storage(needs);
  ASSERT_EQ(choice.devices.size(), 2U);
  EXPECT_THAT(choice.device_of_file, ElementsAre(0, 1, 0));
  EXPECT_EQ(choice.devices[1].file_system.type, "tmpfs");
}

TEST(ChooseStorage, AutoIsUringWhereItCanBeHad) {
  if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
  for (const std::string name : {"auto", "uring"}) {
    const StorageChoice choice = choose_storage(needs_of(name));
    EXPECT_EQ(choice.name, "uring");
    EXPECT_EQ(choice.devices.at(0).make()->name(), "uring");
    EXPECT_FALSE(choice.is_fallback);
    EXPECT_THAT(choice.reason, StartsWith("uring"));
  }
}

TEST(ChooseStorage, BufferedIsBuffered) {
  const StorageChoice choice = choose_storage(needs_of("buffered"));
  EXPECT_EQ(choice.name, "buffered");
  EXPECT_EQ(choice.devices.at(0).make()->name(), "buffered");
  EXPECT_FALSE(choice.is_fallback);
}

/// "NAME fallback|wanted right|wrong REASON", after a read, in a child that gave up rights.
std::string choice_after(const std::string& name, const std::function<void()>& give_up_rights) {
  const testing::TempDir folder;
  const std::string path = folder.write("file", known_content(300'000));
  EXPECT_EQ(chmod(folder.path().c_str(), 0755), 0);
  return in_child([&] {
    give_up_rights();
    const StorageChoice choice = choose_storage(needs_of(name, {path}));
    const auto backend = choice.devices.at(0).make();
    const HostMemory memory(300'000);
    const ReadRequest request{nullptr, path.c_str(), 0, memory.bytes().first(300'000)};
    const auto done = read_one(*backend, request);
    const bool right =
        done.bytes_read && *done.bytes_read == 300'000 && is_known(request.destination, 0);
    return choice.name + (choice.is_fallback ? " fallback" : " wanted") +
           (right ? " right " : " wrong ") + choice.reason;
  });
}

std::string choice_without(const std::string& name, unsigned first_call, unsigned last_call,
                           unsigned error_number) {
  return choice_after(name, [&] { forbid_calls(first_call, last_call, error_number); });
}

TEST(ChooseStorage, FallsBackWhereASandboxForbidsIoUring) {
  for (const std::string name : {"auto", "uring"}) {
    const std::string text =
        choice_without(name, __NR_io_uring_setup, __NR_io_uring_register, EPERM);
    EXPECT_THAT(text, StartsWith("buffered fallback right buffered instead of uring: io_uring "
                                 "can't be used (io_uring_setup: Operation not permitted); "));
    EXPECT_THAT(text, HasSubstr("seccomp"));
  }
}

TEST(ChooseStorage, FallsBackWhereThereIsNoIoUring) {
  EXPECT_THAT(
      choice_without("auto", __NR_io_uring_setup, __NR_io_uring_register, ENOSYS),
      StartsWith("buffered fallback right buffered instead of uring: io_uring can't be used "
                 "(io_uring_setup: Function not implemented); "));
}

TEST(ChooseStorage, FallsBackWhereARingCanBeMadeButNotEntered) {
  if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
  EXPECT_THAT(
      choice_without("auto", __NR_io_uring_enter, __NR_io_uring_enter, EPERM),
      StartsWith("buffered fallback right buffered instead of uring: io_uring can't be used "
                 "(io_uring_enter: Operation not permitted); "));
}

TEST(ChooseStorage, BufferedNeedsNoIoUring) {
  EXPECT_THAT(choice_without("buffered", __NR_io_uring_setup, __NR_io_uring_register, EPERM),
              StartsWith("buffered wanted right buffered, page cache of "));
}

TEST(ChooseStorage, FallsBackWhereARingCanBeMadeButNotSetUp) {
  if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
  EXPECT_THAT(
      choice_without("auto", __NR_io_uring_register, __NR_io_uring_register, EPERM),
      StartsWith("buffered fallback right buffered instead of uring: io_uring can't be used "
                 "(io_uring_register: Operation not permitted); "));
}

TEST(ChooseStorage, ReadsWhereTheLimitOfLockedMemoryIsTooSmallForARing) {
  if (getuid() != 0) GTEST_SKIP() << "only root may change to a user with a low limit";
  const std::string text = choice_after("auto", [] {
    const rlimit limit{4096, 4096};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) throw std::runtime_error("setrlimit");
    become_nobody();
  });
  EXPECT_THAT(text, HasSubstr(" right "));
  // Linux 5.12 to 6.13 do not count the ring.
  if (text.starts_with("buffered")) {
    EXPECT_THAT(text,
                StartsWith("buffered fallback right buffered instead of uring: io_uring can't "
                           "be used (io_uring_setup: Cannot allocate memory); raise the limit "
                           "of locked memory (ulimit -l)"));
  }
}

}  // namespace
}  // namespace feedrace::storage
