// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/storage/access.h"
#include "feedrace/storage/fixed_files.h"
#include "feedrace/storage/fixed_queue.h"
#include "feedrace/storage/posix_file.h"
#include "feedrace/storage/uring_ring.h"

namespace feedrace::storage {

/// How whole small files are read. Of 10,000 photos of 107 kB, 32 in flight, ext4, two cores, both
/// ways read 82,000 a second out of the page cache at 12 us of CPU each; from the disk, chains read
/// 14,400 and opening first 10,800 (8 threads: 11,600), at 52 us (8 threads: 70 us). So chains.
enum class WholeFiles : std::uint8_t {
  kAuto,       ///< Chains where the kernel can (5.19), else `kOpenFirst`.
  kChain,      ///< Open, read and close in one submission; nothing waits in between.
  kOpenFirst,  ///< `submit()` opens, which may wait for a folder's blocks; the ring reads.
};

struct UringOptions {
  std::size_t queue_depth = 32;
  WholeFiles whole_files = WholeFiles::kAuto;
  RingOptions ring;
  /// Files opened by `open()` get places in the ring's table.
  bool fixed_files = true;
  AccessOptions access;
};

/// Reads through io_uring: one system call submits and collects many, and no thread is needed.
///
/// May be made, and memory registered, in any thread. The first `submit()` or `wait()` binds it to
/// the calling thread, which must also be the one that destroys it while reads are in flight: the
/// kernel lets no other thread collect them.
class UringBackend final : public Backend {
 public:
  /// Failure: kUnsupported, with the reason and the remedy.
  static Result<std::unique_ptr<UringBackend>> create(const UringOptions& options);
  ~UringBackend() override;

  std::string_view name() const noexcept override { return "uring"; }
  Limits limits() const noexcept override {
    return {whole_file_alignment(table_.wanted()), slots_.size()};
  }
  bool chains() const noexcept { return chains_; }
  Result<void> register_memory(std::span<std::byte> memory) override;
  Result<std::unique_ptr<File>> open(std::string_view uri) override;
  std::size_t submit(std::span<const ReadRequest> requests) noexcept override;
  std::size_t wait(std::span<Completion> out, std::size_t min_count) noexcept override;
  void cancel_all() noexcept override;
  void interrupt() noexcept override;
  std::uint64_t system_calls() const noexcept override { return system_calls_; }

 private:
  enum class Way : std::uint8_t {
    kRange,        ///< One entry a read, of an open descriptor.
    kChain,        ///< Open, read, look for more, close.
    kDirectChain,  ///< Open with O_DIRECT, read, close.
  };

  /// What one entry of the ring does for its slot.
  enum Step : std::uint8_t { kRead, kOpen, kProbe, kClose, kStepCount };

  /// A read in flight. `pending` entries are in the kernel's hands; it is over only when none is.
  struct Slot {
    ReadRequest request;
    Target target;
    OpenFile own;                              // Of a whole file that was opened first.
    std::shared_ptr<FileSystemAccess> folder;  // Of a direct chain.
    Route route;                               // Of the read that is in the kernel's hands.
    Path path = Path::kPageCache;              // Of the first part.
    std::uint64_t start_ns = 0;
    std::size_t done_bytes = 0;
    std::size_t asked_bytes = 0;  // Of the read that is in the kernel's hands.
    std::uint32_t pending = 0;
    std::uint32_t retries = 0;
    bool in_use = false;
    Way way = Way::kRange;
    bool is_unpolled = false;  // The device has no queue to poll.
    bool short_chain = false;  // A chain could not do it: the file is to be opened first.
    bool cancelled = false;
    std::array<std::int32_t, kStepCount> results{};
    std::byte probe{};  // Where a chain's second read would put a byte behind the first.
  };

  UringBackend(std::unique_ptr<UringRing> ring, FileDescriptor wake, bool chains,
               const UringOptions& options);

  bool begin() noexcept;
  std::size_t active() const noexcept { return slots_.size() - free_.size(); }

  // Queueing.
  void start(std::uint32_t index) noexcept;
  void send(std::uint32_t index) noexcept;
  void queue_wake() noexcept;
  void queue_cancel() noexcept;
  void queue_read(std::uint32_t index) noexcept;
  void prepare_read(io_uring_sqe* entry, int fd, std::span<std::byte> destination,
                    std::uint64_t offset_bytes) noexcept;
  void queue_chain(std::uint32_t index) noexcept;
  void queue_direct_chain(std::uint32_t index) noexcept;
  bool may_chain(const Slot& slot) const noexcept;
  void read_here(std::uint32_t index) noexcept;
  void open_first(std::uint32_t index) noexcept;
  void open_deferred() noexcept;
  void flush() noexcept;

  // Collecting.
  bool enter(unsigned min_count) noexcept;
  void reap() noexcept;
  void handle(std::uint64_t user_data, std::int32_t result) noexcept;
  void read_done(std::uint32_t index) noexcept;
  void chain_done(std::uint32_t index) noexcept;
  void direct_chain_done(std::uint32_t index) noexcept;
  void stopped(std::uint32_t index, Step step, int error_number) noexcept;
  void finish(std::uint32_t index, Result<std::size_t> bytes_read) noexcept;

  std::unique_ptr<UringRing> ring_;
  const FileDescriptor wake_;  // An eventfd that the ring polls, for `interrupt()`.
  const bool chains_;
  const bool is_polled_;  // IOPOLL: reads by O_DIRECT only, and nothing else.
  AccessTable table_;
  std::shared_ptr<FixedFiles> fixed_files_;  // Null: none.
  FallbackLog::Counter& unpolled_;
  bool begun_ = false;
  int begin_error_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  const std::size_t max_open_;  // Whole files that have a descriptor at a time.
  std::size_t open_count_ = 0;
  std::vector<std::uint32_t> deferred_;  // Whole files that wait for a descriptor.
  FixedQueue<Completion> ready_;
  std::uint64_t reaped_ns_ = 0;
  bool cancel_in_flight_ = false;
  std::size_t cancelled_count_ = 0;  // Slots in use that are to be cancelled.
  std::atomic<bool> interrupted_{false};
  std::atomic<std::uint64_t> system_calls_{0};
};

}  // namespace feedrace::storage
