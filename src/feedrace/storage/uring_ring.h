// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <liburing.h>

#include "feedrace/error.h"

namespace feedrace::storage {

/// Makes a small ring and sends a NOP through it: what is forbidden by a sandbox shows here, and
/// not at the first read. Failure: kUnsupported with `uring_refusal`'s sentence.
Result<void> probe_uring();

/// Why `call` failed with `error_number`, and what to do, in one line. `disabled` is the sysctl
/// kernel.io_uring_disabled, nothing where it can't be read.
std::string uring_refusal(const std::string& call, int error_number, std::optional<int> disabled);

struct RingOptions {
  /// SINGLE_ISSUER | DEFER_TASKRUN: completions are worked off when this thread waits, not by
  /// interrupting it. Kernels before 6.1 get a plain ring. Not together with `sqpoll`.
  bool defer_taskrun = true;
  /// A thread of the kernel takes requests without a system call, and spins for `kSqpollIdleMs`
  /// after the last one: a core of CPU time for the calls that it saves.
  bool sqpoll = false;
  /// The device is asked for completions instead of sending interrupts. O_DIRECT only, and only on
  /// devices with queues for it (NVMe with nvme.poll_queues > 0).
  bool iopoll = false;
};
inline constexpr unsigned kSqpollIdleMs = 2000;

/// A ring and the memory that is registered with it. Made in any thread; belongs to the thread that
/// calls `enable()` from then on.
class UringRing {
 public:
  /// Failure: kUnsupported, with the reason and the remedy.
  static Result<std::unique_ptr<UringRing>> create(unsigned entries, const RingOptions& options);
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;
  ~UringRing();

  io_uring* get() noexcept { return &ring_; }
  /// Whether submitting now takes a system call.
  bool submit_enters() const noexcept;
  /// Binds the ring to the calling thread. Returns 0 or an errno.
  int enable() noexcept;
  /// Makes an empty table of files, for reads of files that never get a descriptor. Kernel 5.19.
  bool add_file_slots(unsigned count) noexcept;
  /// Puts a descriptor into the table, -1 takes it out.
  bool set_file_slot(unsigned index, int fd) noexcept;

  /// The kernel takes no more in one piece.
  static constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 30;
  /// Before `enable()`. Failure: kUnsupported, with a limit of locked memory that would do.
  Result<void> register_memory(std::span<std::byte> memory,
                               std::size_t piece_bytes = kMaxPieceBytes);
  /// Which registered buffer holds all of `bytes`; -1 when none does.
  int buffer_of(std::span<const std::byte> bytes) const noexcept;

 private:
  UringRing() = default;

  io_uring ring_{};
  bool disabled_ = false;
  std::span<std::byte> registered_;
  std::size_t piece_bytes_ = kMaxPieceBytes;
};

}  // namespace feedrace::storage
