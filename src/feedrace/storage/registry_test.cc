// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/registry.h"

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
#include "feedrace/storage/test_support.h"
#include "feedrace/storage/uring_ring.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The message of the Error that `make_backend` throws, with its code in front.
std::string refusal(std::string_view name, const BackendOptions& options = {}) {
  try {
    return "made " + make_backend(name, options).name;
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
}

TEST(MakeBackend, KnowsTwoNames) { EXPECT_THAT(backend_names(), ElementsAre("uring", "buffered")); }

TEST(MakeBackend, RefusesAnUnknownNameAndListsTheKnownOnes) {
  EXPECT_EQ(refusal("urin\ng"),
            "invalid_argument: storage back end: \"urin\\x0ag\" is not known; use auto, uring or "
            "buffered");
}

TEST(MakeBackend, RefusesQueueDepthsOutOfRange) {
  EXPECT_EQ(
      refusal("buffered", {0, 0}),
      "invalid_argument: storage back end: a queue depth of 0 is out of range; use 1 to 4096");
  EXPECT_EQ(refusal("auto", {4097, 0}),
            "invalid_argument: storage back end: a queue depth of 4097 is out of range; use 1 to "
            "4096");
}

TEST(MakeBackend, TakesTheSmallestAndTheLargestQueueDepth) {
  for (const std::string name : {"buffered", "auto"}) {
    for (const std::size_t depth : {1, 4096}) {
      EXPECT_EQ(make_backend(name, {depth, 2}).backend->limits().max_in_flight, depth) << name;
    }
  }
}

TEST(MakeBackend, TheDefaultQueueDepthIs32) {
  EXPECT_EQ(make_backend("auto").backend->limits().max_in_flight, 32U);
  EXPECT_EQ(make_backend("buffered").backend->limits().max_in_flight, 32U);
}

TEST(MakeBackend, AutoIsUringWhereItCanBeHad) {
  if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
  for (const std::string name : {"auto", "uring"}) {
    const BackendChoice choice = make_backend(name);
    EXPECT_EQ(choice.name, "uring");
    EXPECT_EQ(choice.backend->name(), "uring");
    EXPECT_FALSE(choice.is_fallback);
    EXPECT_THAT(choice.reason, StartsWith("uring"));
  }
}

TEST(MakeBackend, BufferedIsBuffered) {
  const BackendChoice choice = make_backend("buffered");
  EXPECT_EQ(choice.name, "buffered");
  EXPECT_EQ(choice.backend->name(), "buffered");
  EXPECT_FALSE(choice.is_fallback);
}

/// "NAME fallback|wanted right|wrong REASON", after a read, in a child that gave up rights.
std::string choice_after(const std::string& name, const std::function<void()>& give_up_rights) {
  const testing::TempDir folder;
  const std::string path = folder.write("file", known_content(300'000));
  EXPECT_EQ(chmod(folder.path().c_str(), 0755), 0);
  return in_child([&] {
    give_up_rights();
    const BackendChoice choice = make_backend(name);
    const HostMemory memory(300'000);
    const ReadRequest request{nullptr, path.c_str(), 0, memory.bytes().first(300'000)};
    const auto done = read_one(*choice.backend, request);
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

TEST(MakeBackend, FallsBackWhereASandboxForbidsIoUring) {
  for (const std::string name : {"auto", "uring"}) {
    const std::string text =
        choice_without(name, __NR_io_uring_setup, __NR_io_uring_register, EPERM);
    EXPECT_THAT(text, StartsWith("buffered fallback right buffered instead of uring: io_uring "
                                 "can't be used (io_uring_setup: Operation not permitted); "));
    EXPECT_THAT(text, HasSubstr("seccomp"));
  }
}

TEST(MakeBackend, FallsBackWhereThereIsNoIoUring) {
  EXPECT_THAT(
      choice_without("auto", __NR_io_uring_setup, __NR_io_uring_register, ENOSYS),
      StartsWith("buffered fallback right buffered instead of uring: io_uring can't be used "
                 "(io_uring_setup: Function not implemented); "));
}

TEST(MakeBackend, FallsBackWhereARingCanBeMadeButNotEntered) {
  if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
  EXPECT_THAT(
      choice_without("auto", __NR_io_uring_enter, __NR_io_uring_enter, EPERM),
      StartsWith("buffered fallback right buffered instead of uring: io_uring can't be used "
                 "(io_uring_enter: Operation not permitted); "));
}

TEST(MakeBackend, BufferedNeedsNoIoUring) {
  EXPECT_EQ(choice_without("buffered", __NR_io_uring_setup, __NR_io_uring_register, EPERM),
            "buffered wanted right buffered was asked for");
}

TEST(MakeBackend, FallsBackWhereARingCanBeMadeButNotSetUp) {
  if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
  EXPECT_THAT(
      choice_without("auto", __NR_io_uring_register, __NR_io_uring_register, EPERM),
      StartsWith("buffered fallback right buffered instead of uring: io_uring can't be used "
                 "(io_uring_register: Operation not permitted); "));
}

TEST(MakeBackend, ReadsWhereTheLimitOfLockedMemoryIsTooSmallForARing) {
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
