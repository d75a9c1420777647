// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "feedrace/error.h"
#include "feedrace/stats.h"

namespace feedrace::storage {

/// What becomes of the page cache when samples are read.
enum class PageCache : std::uint8_t {
  kAuto,  ///< Kept where all of the data fit into half of the free memory, else as `kDrop`.
  kKeep,  ///< Read through it, and leave the pages for the next epoch and for other processes.
  kDrop,  ///< Leave no pages behind: O_DIRECT, or else give them up behind each read.
};

/// A file that reads can name. Closed when the last owner drops it.
class File {
 public:
  virtual ~File() = default;
  virtual std::uint64_t size_bytes() const noexcept = 0;
  /// As the user wrote it; every message about the file names it so.
  virtual const std::string& uri() const noexcept = 0;
  /// A power of two. Reads whose offset, size and address are multiples of it come straight from
  /// the device; others are as right, but take another path, which is counted. 1: all are equal.
  virtual std::size_t alignment_bytes() const noexcept { return 1; }
};

/// One read. Either a range of an open file (`file` set), or a whole small file by its path (`path`
/// set): open, read, close in one request, which a back end may do without waiting in between.
struct ReadRequest {
  const File* file = nullptr;        ///< Must stay alive until the completion is returned.
  const char* path = nullptr;        ///< Ended by a 0 byte; must stay alive likewise.
  std::uint64_t offset_bytes = 0;    ///< 0 with `path`.
  std::span<std::byte> destination;  ///< The kernel's until the completion.
  std::uint64_t user_data = 0;       ///< Handed back unread, as `user_data` of io_uring is.
};

struct Completion {
  std::uint64_t user_data = 0;
  /// Bytes read. Less than asked only at the end of the file. A whole-file read that fills its
  /// destination may have more behind it: open the file and read on.
  /// Failures: kNotFound, kIo, kCancelled; the message names the file and the offset.
  Result<std::size_t> bytes_read = std::size_t{0};
  Path path = Path::kPageCache;
  std::uint64_t latency_ns = 0;  ///< From `submit()` to the end of the read.
};

/// Moves bytes from a store into caller-owned memory. One instance serves one thread.
///
/// Contract, checked for every back end by `storage/backend_contract_test.cc`:
/// - every accepted request completes exactly once, also after `cancel_all()`;
/// - completions may come in any order;
/// - it may be made in any thread; the one that submits first also waits, and is the one that
///   destroys it while reads are in flight;
/// - the destructor cancels, then waits: no byte is written after it returns;
/// - a short read in the middle of a file is continued inside, never handed out.
class Backend {
 public:
  struct Limits {
    /// As `File::alignment_bytes`, of the destinations of whole-file reads.
    std::size_t alignment_bytes = 1;
    std::size_t max_in_flight = 1;  ///< `submit()` takes no more than this at a time.
  };

  virtual ~Backend() = default;

  virtual std::string_view name() const noexcept = 0;  ///< As in the configuration: "uring".
  virtual Limits limits() const noexcept = 0;

  /// Tells the back end where destinations will lie, so that it can pin them once. An optimisation:
  /// other destinations stay allowed. Call before the first `submit()`, at most once.
  /// Failure: kUnsupported, with the reason and the remedy; reads work all the same.
  virtual Result<void> register_memory(std::span<std::byte> memory) = 0;

  /// Opens `uri` for reading. Failures: kNotFound, kIo (permission, is a folder), kUnsupported.
  virtual Result<std::unique_ptr<File>> open(std::string_view uri) = 0;

  /// Queues reads in order and returns how many were taken; 0 means: call `wait()` first.
  /// Never blocks on the device and never throws: a read that cannot start completes with a
  /// Failure.
  virtual std::size_t submit(std::span<const ReadRequest> requests) noexcept = 0;

  /// Blocks until `min_count` reads are done or none is left in flight, then fills `out` from
  /// the front and returns how many it filled. A `min_count` of 0 polls. `min_count` above
  /// `out.size()` counts as `out.size()`.
  virtual std::size_t wait(std::span<Completion> out, std::size_t min_count) noexcept = 0;

  /// Makes every read in flight complete soon, with its bytes or with kCancelled. A read that hangs
  /// inside the kernel (a dead network mount) may still take as long as the kernel lets it.
  virtual void cancel_all() noexcept = 0;

  /// The only call that any thread may make: a `wait()` in progress, or else the next one, returns
  /// at once with what is done, maybe nothing. This is how a reader thread hears of the end while
  /// it waits for a device that hangs.
  virtual void interrupt() noexcept = 0;

  /// System calls made so far to submit, read and wait, for benchmarks; 0 where none is counted.
  /// Any thread.
  virtual std::uint64_t system_calls() const noexcept { return 0; }
};

}  // namespace feedrace::storage
