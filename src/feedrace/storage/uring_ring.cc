// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/uring_ring.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace feedrace::storage {
namespace {

std::optional<int> disabled_sysctl() {
  std::ifstream file("/proc/sys/kernel/io_uring_disabled");
  int value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

Failure refused(const std::string& call, int error_number) {
  return {ErrorCode::kUnsupported, uring_refusal(call, error_number, disabled_sysctl())};
}

std::string remedy_of(int error_number, std::optional<int> disabled) {
  if (error_number == EPERM && disabled.value_or(0) != 0) {
    return fmt::format("the sysctl kernel.io_uring_disabled is {}: set it to 0{}", *disabled,
                       *disabled == 1 ? ", or join the group kernel.io_uring_group" : "");
  }
  if (error_number == EPERM || error_number == EACCES) {
    return fmt::format(
        "{}a seccomp filter forbids it, as the default profile of a container does: allow "
        "io_uring_setup, io_uring_enter and io_uring_register in the profile",
        disabled ? "the sysctl kernel.io_uring_disabled is 0, so " : "most likely ");
  }
  if (error_number == ENOSYS)
    return "this kernel or sandbox has no io_uring: use Linux 5.10 or newer";
  if (error_number == ENOMEM) return "raise the limit of locked memory (ulimit -l), or free memory";
  if (error_number == EMFILE) return "raise the limit of open files (ulimit -n)";
  return "use Linux 5.10 or newer";
}

std::string memlock_text() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return fmt::format("{} KiB", limit.rlim_cur / 1024);
}

/// What Linux 6.14 and newer count as locked memory for the ring itself.
std::size_t ring_bytes(const io_uring& ring) {
  const auto pages = [](std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; };
  return pages(std::max(ring.sq.ring_sz, ring.cq.ring_sz)) +
         pages(ring.sq.ring_entries * sizeof(io_uring_sqe));
}

Failure not_registered(std::size_t bytes, std::size_t ring_own_bytes, int error_number) {
  const std::size_t kib = (bytes + 1023) / 1024;
  const std::size_t limit_kib = (bytes + ring_own_bytes + 1023) / 1024;
  const std::string error = errno_text("io_uring_register", error_number);
  if (error_number != ENOMEM) {
    return {
        ErrorCode::kUnsupported,
        fmt::format("uring: {} KiB of buffers are not registered ({}); reads work without, with "
                    "more CPU time",
                    kib, error)};
  }
  // What else this user has locked, in any process, counts against the same limit.
  return {
      ErrorCode::kUnsupported,
      fmt::format("uring: {} KiB of buffers are not registered ({}; this user's limit of locked "
                  "memory is {}); reads work without, with more CPU time: for less, set "
                  "`ulimit -l {}` or above (systemd: LimitMEMLOCK={}K, Docker: --ulimit "
                  "memlock={})",
                  kib, error, memlock_text(), limit_kib, limit_kib, limit_kib * 1024)};
}

// liburing maps and unmaps rings without the C library, so the thread sanitizer does not see that
// memory of a new ring, which often lies where another thread's last one did, was let go in
// between.
#ifdef __SANITIZE_THREAD__
char rings_ended;
void note_ring_made() { __tsan_acquire(&rings_ended); }
void note_ring_ends() { __tsan_release(&rings_ended); }
#else
void note_ring_made() {}
void note_ring_ends() {}
#endif

/// Registers `pieces`. A ring that was just destroyed gives its share of locked memory back up to
/// tens of milliseconds later, which a loader that starts again at once must survive.
int register_patiently(io_uring* ring, const std::vector<iovec>& pieces) {
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    const int error =
        io_uring_register_buffers(ring, pieces.data(), static_cast<unsigned>(pieces.size()));
    if (error != -ENOMEM || attempt == kAttempts) return error;
    usleep(10'000);
  }
}

}  // namespace

std::string uring_refusal(const std::string& call, int error_number, std::optional<int> disabled) {
  return fmt::format("io_uring can't be used ({}); {}", errno_text(call, error_number),
                     remedy_of(error_number, disabled));
}

Result<void> probe_uring() {
  auto made = UringRing::create(2, {});
  if (!made) return made.error();
  if (const int error = (*made)->enable(); error != 0) return refused("io_uring_register", error);
  io_uring* ring = (*made)->get();
  io_uring_prep_nop(io_uring_get_sqe(ring));
  int entered = 0;
  do {
    entered = io_uring_submit_and_wait(ring, 1);
  } while (entered == -EINTR);
  if (entered < 0) return refused("io_uring_enter", -entered);
  return {};
}

Result<std::unique_ptr<UringRing>> UringRing::create(unsigned entries, const RingOptions& options) {
  // A ring of a single issuer belongs to the thread that makes it, unless it starts disabled: then
  // to the one that enables it.
  constexpr unsigned kOwned =
      IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  const bool is_owned = options.defer_taskrun && !options.sqpoll;  // EINVAL together.
  const unsigned asked =
      (options.sqpoll ? IORING_SETUP_SQPOLL : 0U) | (options.iopoll ? IORING_SETUP_IOPOLL : 0U);
  const unsigned choices[] = {asked | (is_owned ? kOwned : 0U) | IORING_SETUP_SUBMIT_ALL,
                              asked | IORING_SETUP_SUBMIT_ALL, asked};
  int error = 0;
  for (const unsigned flags : choices) {
    std::unique_ptr<UringRing> made(new UringRing);
    io_uring_params params{};
    params.flags = flags;
    params.sq_thread_idle = options.sqpoll ? kSqpollIdleMs : 0;
    error = io_uring_queue_init_params(entries, &made->ring_, &params);
    made->disabled_ = (flags & IORING_SETUP_R_DISABLED) != 0;
    if (error == 0) {
      note_ring_made();
      return made;
    }
    made->ring_.ring_fd = -1;
    if (error != -EINVAL) break;
  }
  return refused("io_uring_setup", -error);
}

UringRing::~UringRing() {
  if (ring_.ring_fd < 0) return;
  // Gives locked memory back now, where this is the ring's own thread; else the kernel does later.
  if (!registered_.empty()) io_uring_unregister_buffers(&ring_);
  note_ring_ends();
  io_uring_queue_exit(&ring_);
}

int UringRing::enable() noexcept {
  if (!disabled_) return 0;
  // Not io_uring_enable_rings(): liburing 2.3 declares it, but its shared library lacks it.
  const long error =
      syscall(__NR_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  if (error < 0) return errno;
  disabled_ = false;
  return 0;
}

bool UringRing::add_file_slots(unsigned count) noexcept {
  return io_uring_register_files_sparse(&ring_, count) == 0;
}

bool UringRing::set_file_slot(unsigned index, int fd) noexcept {
  return io_uring_register_files_update(&ring_, index, &fd, 1) == 1;
}

bool UringRing::submit_enters() const noexcept {
  if ((ring_.flags & IORING_SETUP_SQPOLL) == 0) return true;
  return (IO_URING_READ_ONCE(*ring_.sq.kflags) & IORING_SQ_NEED_WAKEUP) != 0;
}

Result<void> UringRing::register_memory(std::span<std::byte> memory, std::size_t piece_bytes) {
  if (memory.empty()) return {};
  if (!registered_.empty()) {
    return Failure{ErrorCode::kUnsupported,
                   "uring: memory is registered already; register one piece, once"};
  }
  std::vector<iovec> pieces;
  for (std::size_t at = 0; at < memory.size(); at += piece_bytes) {
    pieces.push_back({memory.data() + at, std::min(piece_bytes, memory.size() - at)});
  }
  const int error = register_patiently(&ring_, pieces);
  if (error < 0) return not_registered(memory.size(), ring_bytes(ring_), -error);
  registered_ = memory;
  piece_bytes_ = piece_bytes;
  return {};
}

int UringRing::buffer_of(std::span<const std::byte> bytes) const noexcept {
  // Addresses as numbers: pointers into different objects must not be compared.
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const auto base = reinterpret_cast<std::uintptr_t>(registered_.data());
  if (bytes.empty() || begin < base || begin + bytes.size() > base + registered_.size()) return -1;
  const std::size_t first = (begin - base) / piece_bytes_;
  const std::size_t last = (begin - base + bytes.size() - 1) / piece_bytes_;
  return first == last ? static_cast<int>(first) : -1;
}

}  // namespace feedrace::storage
