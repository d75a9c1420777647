// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/error.h"
#include "feedrace/pack/pack_source.h"
#include "feedrace/pack/ring_memory.h"

namespace feedrace::pack {

/// A sample whose bytes are there, but for those of large members.
struct ReadSample {
  struct Member {
    SourceMember source;
    std::string_view bytes;    ///< All of the member; valid until the next call of the reader.
    bool is_streamed = false;  ///< Large: `read_streamed` gives the bytes instead.
  };
  std::uint64_t sample = 0;
  std::vector<Member> members;
  Result<void> state;  ///< What went wrong; then `members` have no bytes.
};

/// Reads samples ahead, many in flight, and gives them in the order in which they were asked for.
/// One instance serves one thread.
class SampleReader {
 public:
  /// Members above this size are streamed in pieces of it.
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  /// Of the memory that samples are read into.
  static constexpr std::size_t kRingBytes = std::size_t{32} << 20;
  static constexpr std::size_t kMemoryBytes = kRingBytes + kPieceBytes;

  /// `source` must outlive it.
  SampleReader(const PackSource& source, std::unique_ptr<storage::Backend> backend);
  ~SampleReader();
  SampleReader(const SampleReader&) = delete;
  SampleReader& operator=(const SampleReader&) = delete;

  /// Asks for `count` samples: the n-th is `sample_of(n)`. What was asked for before is dropped.
  void start(std::uint64_t count, std::function<std::uint64_t(std::uint64_t)> sample_of);
  /// The next one; null at the end. Valid until the next call.
  const ReadSample* next();
  /// Gives a streamed member piece by piece; what `take` fails with ends it. Failures besides: the
  /// file can't be read, or is another one than it was when it was planned.
  Result<void> read_streamed(const SourceMember& member,
                             const std::function<Result<void>(std::string_view)>& take);

 private:
  /// One read of the back end's.
  struct Read {
    std::shared_ptr<storage::File> file;  // Null: the whole file at `path`.
    std::string path;
    std::size_t first_member = 0;  // Those that the read serves.
    std::size_t end_member = 0;
    std::uint64_t offset_bytes = 0;
    std::span<std::byte> memory;
    Result<std::size_t> got = std::size_t{0};
    bool is_done = false;
  };
  struct Pending {
    ReadSample sample;
    std::deque<Read> reads;  // Requests point into it.
    std::size_t submitted = 0;
    std::uint64_t ring_end = 0;

    bool is_done() const noexcept {
      return std::all_of(reads.begin(), reads.end(), [](const Read& read) { return read.is_done; });
    }
  };
  struct OpenShard {
    std::string path;
    std::shared_ptr<storage::File> file;
  };

  void read_ahead();
  bool begin_sample();
  Result<void> plan_reads(Pending& pending);
  bool place_reads(Pending& pending);
  void submit();
  void wait();
  void finish(Pending& pending);
  Result<void> take_read(ReadSample& sample, const Read& read);
  Result<std::shared_ptr<storage::File>> open_shard(const std::string& path);
  void drain();

  const PackSource& source_;
  RingMemory ring_;
  const std::unique_ptr<storage::Backend> backend_;  // Ends before the memory that it reads into.
  const std::size_t alignment_bytes_;
  std::uint64_t asked_ = 0;
  std::uint64_t begun_ = 0;
  std::function<std::uint64_t(std::uint64_t)> sample_of_;
  std::deque<std::unique_ptr<Pending>> pending_;
  std::unique_ptr<Pending> held_;  // Planned, but without room in the ring.
  std::unique_ptr<Pending> given_;
  std::size_t in_flight_ = 0;
  std::vector<SourceMember> members_;
  std::deque<OpenShard> shards_;
  std::vector<char> piece_;
};

/// All bytes of a member, by plain reads. Failures: as `SampleReader::read_streamed`; kUnsupported
/// above `max_bytes`.
Result<std::string> read_whole_member(const SourceMember& member, std::uint64_t max_bytes);

/// Failure kIo when the file is not the one that was planned with, by size and time.
Result<void> check_unchanged(const SourceMember& member);

}  // namespace feedrace::pack
