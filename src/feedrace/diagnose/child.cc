// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "feedrace/core/text.h"
#include "feedrace/host/file_descriptor.h"

namespace feedrace::diagnose {
namespace {

using host::FileDescriptor;

struct Pipe {
  FileDescriptor reading;
  FileDescriptor writing;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> fds{};
  if (pipe2(fds.data(), O_CLOEXEC) != 0) {
    return Failure{ErrorCode::kIo, errno_text("pipe2", errno) + "; close some files"};
  }
  return Pipe{FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

/// In the child, between fork and exec, where only async-signal-safe calls are allowed.
[[noreturn]] void become(const char* program, char* const* arguments, char* const* environment,
                         int input, int output, int errors, pid_t parent) noexcept {
  constexpr int kNotStarted = 127;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // The parent may have blocked what is to end it.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kNotStarted);  // Gone before the line above.
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execve(program, arguments, environment);
  _exit(kNotStarted);
}

/// Reads both pipes until the child has closed them.
void drain(const Pipe& output, const Pipe& errors, ChildEnd& end) {
  std::array<pollfd, 2> fds = {
      {{output.reading.get(), POLLIN, 0}, {errors.reading.get(), POLLIN, 0}}};
  const std::array<std::string*, 2> texts = {&end.output, &end.errors};
  std::array<char, 4096> buffer{};
  for (int open_count = 2; open_count > 0;) {
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      const ssize_t count = read(fds[i].fd, buffer.data(), buffer.size());
      if (count > 0) {
        texts[i]->append(buffer.data(), static_cast<std::size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        fds[i].fd = -1;  // poll passes over it.
        --open_count;
      }
    }
  }
}

void wait_for(pid_t child, ChildEnd& end) {
  constexpr int kSignalled = 128;
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  end.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// exec's arrays are of char* for C's sake; it writes to none.
void append(std::vector<char*>& pointers, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
}

}  // namespace

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty()) continue;
    folder.append("/").append(name);
    if (access(folder.c_str(), X_OK) == 0) return folder;
  }
  return {};
}

Result<ChildEnd> run_child(const std::string& program, const std::vector<std::string>& arguments,
                           const std::vector<std::string>& environment) {
  auto output = make_pipe();
  if (!output) return output.error();
  auto errors = make_pipe();
  if (!errors) return errors.error();
  const FileDescriptor input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<char*> argument_pointers = {const_cast<char*>(program.c_str())};
  append(argument_pointers, arguments);
  argument_pointers.push_back(nullptr);
  std::vector<char*> environment_pointers;
  append(environment_pointers, environment);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const auto replaces = [entry](const std::string& text) {
      return std::string_view(*entry).starts_with(text.substr(0, text.find('=') + 1));
    };
    if (std::none_of(environment.begin(), environment.end(), replaces)) {
      environment_pointers.push_back(*entry);
    }
  }
  environment_pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return Failure{ErrorCode::kIo, errno_text("fork", errno) + "; end some processes"};
  if (child == 0) {
    become(program.c_str(), argument_pointers.data(), environment_pointers.data(), input.get(),
           output->writing.get(), errors->writing.get(), parent);
  }
  output->writing = FileDescriptor();
  errors->writing = FileDescriptor();
  ChildEnd end;
  drain(*output, *errors, end);
  wait_for(child, end);
  return end;
}

}  // namespace feedrace::diagnose
