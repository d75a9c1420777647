// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/sample_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/alignment.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::pack {
namespace {

/// Samples that are read ahead, at most: the bound of what is kept for those without bytes.
constexpr std::size_t kMaxPending = 256;
/// Members of a shard's sample are read in one go when so few bytes lie between them.
constexpr std::uint64_t kMaxGapBytes = std::uint64_t{16} << 10;
/// Open at a time: a shuffled order goes from shard to shard.
constexpr std::size_t kMaxOpenShards = 64;
/// All of a sample's members together: more is streamed, so that the ring always has room for one.
constexpr std::uint64_t kMaxSampleBytes = SampleReader::kRingBytes / 2;

Failure changed(const SourceMember& member, const std::string& how) {
  return {ErrorCode::kIo,
          fmt::format("{}: changed while it was packed ({}); leave sources alone meanwhile, and "
                      "pack into an empty folder",
                      printable(member.path), how)};
}

/// In the ring, with what alignment adds at both ends and a gap in front.
std::uint64_t room_for(std::uint64_t size_bytes) noexcept {
  return round_up(size_bytes, RingMemory::kAlignmentBytes) + 3 * RingMemory::kAlignmentBytes +
         kMaxGapBytes;
}

bool is_small(const SourceMember& member) noexcept {
  return member.size_bytes <= SampleReader::kPieceBytes;
}

Result<void> read_pieces(const SourceMember& member, std::span<char> piece,
                         const std::function<Result<void>(std::string_view)>& take) {
  Result<formats::Fd> fd = formats::open_for_reading(member.path);
  if (!fd) return fd.error();
  (void)posix_fadvise(fd->get(), static_cast<off_t>(member.offset_bytes),
                      static_cast<off_t>(member.size_bytes), POSIX_FADV_SEQUENTIAL);
  for (std::uint64_t at = 0; at < member.size_bytes;) {
    const auto ask =
        static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), member.size_bytes - at));
    const Result<std::size_t> got =
        formats::read_at(fd->get(), member.path, member.offset_bytes + at, piece.first(ask));
    if (!got) return got.error();
    if (*got < ask) return changed(member, "it became shorter");
    if (Result<void> taken = take({piece.data(), ask}); !taken) return taken;
    at += ask;
  }
  return check_unchanged(member);
}

}  // namespace

Result<void> check_unchanged(const SourceMember& member) {
  struct stat status{};
  if (stat(member.path.c_str(), &status) != 0) {
    return formats::system_failure(member.path, "stat", errno);
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size != member.file_bytes) {
    return changed(member, fmt::format("{} bytes, not {}", size, member.file_bytes));
  }
  if (formats::mtime_ns(status) != member.mtime_ns) return changed(member, "another time");
  return {};
}

SampleReader::SampleReader(const PackSource& source, std::unique_ptr<storage::Backend> backend)
    : source_(source),
      ring_(kRingBytes),
      backend_(std::move(backend)),
      alignment_bytes_(std::max<std::size_t>(1, backend_->limits().alignment_bytes)) {
  // An optimisation, and reads work without.
  (void)backend_->register_memory(ring_.all());
}

SampleReader::~SampleReader() { drain(); }

void SampleReader::drain() {
  backend_->cancel_all();
  while (in_flight_ > 0) wait();
  pending_.clear();
  held_.reset();
  given_.reset();
  ring_.give_back(ring_.end());
}

void SampleReader::start(std::uint64_t count,
                         std::function<std::uint64_t(std::uint64_t)> sample_of) {
  drain();
  asked_ = count;
  begun_ = 0;
  sample_of_ = std::move(sample_of);
}

const ReadSample* SampleReader::next() {
  if (given_) {
    ring_.give_back(given_->ring_end);
    given_.reset();
  }
  read_ahead();
  if (pending_.empty() && held_) throw std::logic_error("a sample larger than the ring");
  if (pending_.empty()) return nullptr;
  while (!pending_.front()->is_done()) {
    wait();
    submit();
  }
  given_ = std::move(pending_.front());
  pending_.pop_front();
  finish(*given_);
  read_ahead();
  return &given_->sample;
}

void SampleReader::read_ahead() {
  while (pending_.size() < kMaxPending && in_flight_ < backend_->limits().max_in_flight) {
    if (!begin_sample()) break;
    submit();
  }
  submit();
}

/// False when there is none left, or no room.
bool SampleReader::begin_sample() {
  if (!held_) {
    if (begun_ == asked_) return false;
    held_ = std::make_unique<Pending>();
    held_->sample.sample = sample_of_(begun_++);
    held_->sample.state = plan_reads(*held_);
    if (!held_->sample.state) held_->reads.clear();
  }
  if (!place_reads(*held_)) return false;
  held_->ring_end = ring_.end();
  pending_.push_back(std::move(held_));
  return true;
}

/// Which reads bring the sample's small members.
Result<void> SampleReader::plan_reads(Pending& pending) {
  Result<void> found = source_.members(pending.sample.sample, members_);
  if (!found) return found;
  std::uint64_t bytes = 0;
  for (SourceMember& source : members_) {
    const std::size_t number = pending.sample.members.size();
    ReadSample::Member& member = pending.sample.members.emplace_back();
    member.source = std::move(source);
    const bool is_file = member.source.from == SourceMember::From::kFile;
    const bool is_shard = member.source.from == SourceMember::From::kShard;
    // An empty file is read to see that it still is.
    if (!is_file && (!is_shard || member.source.size_bytes == 0)) continue;
    const std::uint64_t room = room_for(member.source.size_bytes);
    member.is_streamed = !is_small(member.source) || bytes + room > kMaxSampleBytes;
    if (member.is_streamed) continue;
    bytes += room;
    const std::uint64_t begin = member.source.offset_bytes;
    if (is_shard && !pending.reads.empty()) {
      // Members lie one behind the other as a rule.
      Read& last = pending.reads.back();
      const SourceMember& before = pending.sample.members[last.end_member - 1].source;
      const std::uint64_t end = before.offset_bytes + before.size_bytes;
      const bool joins = last.end_member == number && begin >= end && begin - end <= kMaxGapBytes;
      if (joins) {
        last.end_member = number + 1;
        continue;
      }
    }
    Read& read = pending.reads.emplace_back();
    read.path = member.source.path;
    read.first_member = number;
    read.end_member = number + 1;
    if (is_file) continue;
    auto file = open_shard(read.path);
    if (!file) return file.error();
    read.file = *std::move(file);
  }
  return {};
}

/// Gives each read its memory; false when there is not enough of it yet.
bool SampleReader::place_reads(Pending& pending) {
  const std::uint64_t mark = ring_.end();
  for (Read& read : pending.reads) {
    const SourceMember& first = pending.sample.members[read.first_member].source;
    const SourceMember& last = pending.sample.members[read.end_member - 1].source;
    std::uint64_t bytes = 0;
    if (read.file) {
      const std::uint64_t alignment = read.file->alignment_bytes();
      read.offset_bytes = round_down(first.offset_bytes, alignment);
      bytes = round_up(last.offset_bytes + last.size_bytes, alignment) - read.offset_bytes;
    } else {
      bytes = round_up(first.size_bytes + 1, alignment_bytes_);  // One more shows that it grew.
    }
    read.memory = ring_.take(static_cast<std::size_t>(bytes));
    if (read.memory.empty()) {
      ring_.undo(mark);
      return false;
    }
  }
  return true;
}

void SampleReader::submit() {
  const std::size_t room = backend_->limits().max_in_flight;
  for (const std::unique_ptr<Pending>& pending : pending_) {
    while (pending->submitted < pending->reads.size()) {
      if (in_flight_ >= room) return;
      Read& read = pending->reads[pending->submitted];
      storage::ReadRequest request;
      request.file = read.file.get();
      request.path = read.file ? nullptr : read.path.c_str();
      request.offset_bytes = read.offset_bytes;
      request.destination = read.memory;
      request.user_data = reinterpret_cast<std::uint64_t>(&read);
      if (backend_->submit({&request, 1}) == 0) return;
      ++pending->submitted;
      ++in_flight_;
    }
  }
}

void SampleReader::wait() {
  std::array<storage::Completion, 32> completions;
  const std::size_t count = backend_->wait(completions, 1);
  for (std::size_t i = 0; i < count; ++i) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as `submit` gave it.
    auto* read = reinterpret_cast<Read*>(completions[i].user_data);
    read->got = std::move(completions[i].bytes_read);
    read->is_done = true;
  }
  in_flight_ -= count;
}

/// Cuts what was read into members.
void SampleReader::finish(Pending& pending) {
  ReadSample& sample = pending.sample;
  for (ReadSample::Member& member : sample.members) {
    if (member.source.from == SourceMember::From::kText) member.bytes = member.source.text;
  }
  for (const Read& read : pending.reads) {
    if (sample.state) sample.state = take_read(sample, read);
  }
}

Result<void> SampleReader::take_read(ReadSample& sample, const Read& read) {
  if (!read.got) return read.got.error();
  const auto* bytes = reinterpret_cast<const char*>(read.memory.data());
  for (std::size_t i = read.first_member; i < read.end_member; ++i) {
    ReadSample::Member& member = sample.members[i];
    if (member.bytes.data() != nullptr || member.source.size_bytes == 0) continue;
    const std::uint64_t begin = member.source.offset_bytes - read.offset_bytes;
    const std::uint64_t end = begin + member.source.size_bytes;
    const bool is_whole = read.file ? *read.got >= end : *read.got == end;
    if (!is_whole) {
      return changed(member.source, fmt::format("{} bytes came", *read.got));
    }
    member.bytes = {bytes + begin, static_cast<std::size_t>(member.source.size_bytes)};
  }
  return check_unchanged(sample.members[read.first_member].source);
}

Result<std::shared_ptr<storage::File>> SampleReader::open_shard(const std::string& path) {
  const auto known = std::find_if(shards_.begin(), shards_.end(),
                                  [&](const OpenShard& shard) { return shard.path == path; });
  if (known != shards_.end()) return known->file;
  auto file = backend_->open(path);
  if (!file) return file.error();
  if (shards_.size() == kMaxOpenShards) shards_.pop_front();
  shards_.push_back({path, std::shared_ptr<storage::File>(*std::move(file))});
  return shards_.back().file;
}

Result<void> SampleReader::read_streamed(
    const SourceMember& member, const std::function<Result<void>(std::string_view)>& take) {
  piece_.resize(kPieceBytes);
  return read_pieces(member, piece_, take);
}

Result<std::string> read_whole_member(const SourceMember& member, std::uint64_t max_bytes) {
  if (member.from == SourceMember::From::kText) return member.text;
  if (member.size_bytes > max_bytes) {
    return Failure{ErrorCode::kUnsupported,
                   fmt::format("{}: {} of a picture; at most {} are taken into memory to change it",
                               printable(member.path), human_bytes(member.size_bytes),
                               human_bytes(max_bytes))};
  }
  std::vector<char> piece(static_cast<std::size_t>(std::min<std::uint64_t>(
      SampleReader::kPieceBytes, std::max<std::uint64_t>(1, member.size_bytes))));
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(member.size_bytes));
  const Result<void> read = read_pieces(member, piece, [&](std::string_view more) -> Result<void> {
    bytes += more;
    return {};
  });
  if (!read) return read.error();
  return bytes;
}

}  // namespace feedrace::pack
