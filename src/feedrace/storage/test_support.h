// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of back ends share: files with known bytes, reading to the end, child processes
// with fewer rights.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/backend.h"
#include "feedrace/testing/null_backend.h"

namespace feedrace::storage {

/// `size_bytes` of the bytes that the null back end makes up, so that it passes the same tests.
inline std::string known_content(std::size_t size_bytes) {
  std::string content(size_bytes, '\0');
  testing::NullBackend::fill(std::as_writable_bytes(std::span(content)), 0);
  return content;
}

/// Whether `bytes` are those of a known file from `offset_bytes` on.
inline bool is_known(std::span<const std::byte> bytes, std::uint64_t offset_bytes) {
  std::vector<std::byte> expected(bytes.size());
  testing::NullBackend::fill(expected, offset_bytes);
  return bytes.empty() || std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0;
}

/// Whether every byte is `value`. Fast under sanitizers too.
inline bool is_filled_with(std::span<const std::byte> bytes, std::byte value) {
  if (bytes.empty()) return true;
  return bytes[0] == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

/// Sends all requests and collects all completions, by user_data, which must be distinct. Each must
/// complete exactly once.
inline std::map<std::uint64_t, Completion> read_all(Backend& backend,
                                                    std::span<const ReadRequest> requests) {
  std::map<std::uint64_t, Completion> done;
  std::vector<Completion> out(16);
  std::size_t sent = 0;
  while (done.size() < requests.size()) {
    sent += backend.submit(requests.subspan(sent));
    const std::size_t count = backend.wait(out, 1);
    if (count == 0) {
      ADD_FAILURE() << "wait() gave nothing with " << requests.size() - done.size() << " to come";
      break;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t user_data = out[i].user_data;
      EXPECT_TRUE(done.emplace(user_data, std::move(out[i])).second) << user_data << " came twice";
    }
  }
  EXPECT_EQ(backend.wait(out, 1), 0U) << "more completions than requests";
  return done;
}

/// One read, to its end.
inline Completion read_one(Backend& backend, ReadRequest request) {
  request.user_data = 0;
  auto done = read_all(backend, {&request, 1});
  return done.empty() ? Completion{} : std::move(done.begin()->second);
}

/// Runs `work` in a child process and returns its text, so that it may give up rights for good.
inline std::string in_child(const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    try {
      text = work();
    } catch (const std::exception& error) {
      text = std::string("exception: ") + error.what();
    }
    const bool sent = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n = 0; (n = read(ends[0], part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "the child process ended badly; it said: " << text;
  return text;
}

/// Gives up root for good; a user of its own, since locked memory is counted by user.
inline void become_nobody() {
  const auto user = static_cast<uid_t>(200'000 + getpid() % 100'000);
  if (setgid(65'534) != 0 || setuid(user) != 0) throw std::runtime_error("setuid");
}

/// From now on system calls `first` to `last` fail with `error_number` in this process, as under a
/// container's seccomp profile.
inline void forbid_calls(unsigned first, unsigned last, unsigned error_number) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error_number),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    throw std::runtime_error("seccomp");
  }
}

}  // namespace feedrace::storage
