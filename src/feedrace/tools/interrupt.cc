// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "feedrace/core/text.h"
#include "feedrace/tools/command.h"

namespace feedrace::tools {
namespace {

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  const sigset_t signals = ending_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC);
  end_fd_ = eventfd(0, EFD_CLOEXEC);
  if (signal_fd_ < 0 || end_fd_ < 0) {
    throw Error(ErrorCode::kIo, errno_text("signalfd", errno));
  }
  thread_ = std::thread([this] { serve(); });
}

InterruptGuard::~InterruptGuard() {
  const std::uint64_t one = 1;
  if (write(end_fd_, &one, sizeof one) == sizeof one) thread_.join();
  close(signal_fd_);
  close(end_fd_);
}

void InterruptGuard::set(Loader* loader) noexcept {
  std::lock_guard lock(mutex_);
  loader_ = loader;
}

void InterruptGuard::set_asked(bool is_asked) noexcept {
  std::lock_guard lock(mutex_);
  is_asked_ = is_asked;
}

bool InterruptGuard::is_interrupted() const {
  std::lock_guard lock(mutex_);
  return interrupted_;
}

void InterruptGuard::serve() noexcept {
  while (true) {
    std::array<pollfd, 2> fds = {{{signal_fd_, POLLIN, 0}, {end_fd_, POLLIN, 0}}};
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    if (fds[0].revents == 0) continue;
    signalfd_siginfo info{};
    if (read(signal_fd_, &info, sizeof info) != sizeof info) continue;
    std::lock_guard lock(mutex_);
    // Nothing to end in order, or the user has waited long enough.
    if (interrupted_ || (loader_ == nullptr && !is_asked_)) _exit(kInterrupted);
    interrupted_ = true;
    if (loader_ != nullptr) loader_->cancel();
  }
}

}  // namespace feedrace::tools
