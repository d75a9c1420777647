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

/// A ring and the memory that is registered with it. Made in any thread; belongs to the thread that
/// calls `enable()` from then on.
class UringRing {
 public:
  /// `defer_taskrun` asks for SINGLE_ISSUER | DEFER_TASKRUN: completions are worked off when this
  /// thread waits, not by interrupting it. Kernels before 6.1 get a plain ring.
  static Result<std::unique_ptr<UringRing>> create(unsigned entries, bool defer_taskrun);
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;
  ~UringRing();

  io_uring* get() noexcept { return &ring_; }
  /// Binds the ring to the calling thread. Returns 0 or an errno.
  int enable() noexcept;
  /// Makes an empty table of files, for reads of files that never get a descriptor. Kernel 5.19.
  bool add_file_slots(unsigned count) noexcept;

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
