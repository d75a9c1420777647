// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/quarantine.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/bad_sample.h"
#include "feedrace/formats/joined_dataset.h"

namespace feedrace::pipeline {
namespace {

// Another rank holds the lock while it reads and writes a few lines. One that is stopped in between
// must not stop the others: a line twice is the lesser harm.
constexpr std::chrono::seconds kLockWait{2};
constexpr std::chrono::milliseconds kLockRetry{1};
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
// What is longer is no line of ours.
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

formats::BadSample describe(const formats::Dataset& dataset, std::uint64_t sample,
                            std::uint64_t epoch, std::string_view code, std::string_view reason) {
  const formats::Place place = dataset.place(sample);
  formats::BadSample described;
  // Two sets may have files of the same key.
  if (const auto* joined = dynamic_cast<const formats::JoinedDataset*>(&dataset)) {
    described.set = joined->set_name(joined->set_of(sample));
  }
  if (place.shard != formats::Place::kOwnFile) described.shard = dataset.shards()[place.shard];
  described.key = dataset.key(sample);
  described.offset_bytes = place.offset_bytes;
  if (place.size_bytes != formats::Place::kUnknownSize) described.size_bytes = place.size_bytes;
  described.sample = sample;
  described.epoch = epoch;
  described.code = code;
  described.reason = reason;
  return described;
}

/// What two lines of the same sample have in common: texts of any bytes but 0.
std::string identity_text(const formats::BadSample& sample) {
  const std::string kind = sample.is_flagged() ? "flagged" : "bad";
  const std::string set = sample.set ? "/" + *sample.set : "";
  return fmt::format("{1}{0}{2}{0}{3}{0}{4}", '\0', kind, set, sample.shard, sample.key);
}

/// Takes or lets go a lock of the whole file that belongs to this opening of it: other openings,
/// in this process too, wait for it, and it ends with the process.
int set_lock(int fd, short kind) {
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  return fcntl(fd, F_OFD_SETLK, &lock);
}

}  // namespace

Quarantine::Quarantine(const std::string& path) : path_(path) {
  if (path_.empty()) return;
  // Non-blocking: a pipe that nobody reads must not hold up the start.
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd_ < 0) {
    throw Error(ErrorCode::kIo,
                fmt::format("{}: the quarantine file can't be written ({}); name another with "
                            "quarantine_file",
                            printable(path_), errno_text("open", errno)));
  }
  open_shared();
}

Quarantine::~Quarantine() {
  if (fd_ >= 0) close(fd_);
}

/// Opens the file for reading too, if it is one.
void Quarantine::open_shared() {
  struct stat written{};
  if (fstat(fd_, &written) != 0 || !S_ISREG(written.st_mode)) return;
  const int fd = open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return;
  struct stat read{};
  const bool is_same =
      fstat(fd, &read) == 0 && read.st_dev == written.st_dev && read.st_ino == written.st_ino;
  close(is_same ? std::exchange(fd_, fd) : fd);
  is_shared_ = is_same;
}

Quarantine::Identity Quarantine::identity_of(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.low64, hash.high64};
}

/// False when the lock can't be had: no locks on this file system, or held for too long.
bool Quarantine::lock() {
  const auto end = std::chrono::steady_clock::now() + kLockWait;
  while (set_lock(fd_, F_WRLCK) != 0) {
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) return false;
    if (!waits_ || std::chrono::steady_clock::now() >= end) {
      waits_ = false;
      return false;
    }
    std::this_thread::sleep_for(kLockRetry);
  }
  waits_ = true;
  return true;
}

void Quarantine::unlock() { set_lock(fd_, F_UNLCK); }

void Quarantine::take_in(std::string_view line) {
  const std::optional<formats::BadSample> sample = formats::BadSample::from_line(line);
  if (sample && !sample->code.empty()) known_.insert(identity_of(identity_text(*sample)));
}

/// Takes in the whole lines behind `seen_bytes_`. True when a piece of a line follows them.
bool Quarantine::read_new_lines() {
  struct stat now{};
  if (fstat(fd_, &now) == 0 && static_cast<std::uint64_t>(now.st_size) < seen_bytes_) {
    // Somebody emptied it: what is not there any more may be listed again.
    seen_bytes_ = 0;
    known_.clear();
  }
  std::string line;
  bool is_too_long = false;
  std::uint64_t at = seen_bytes_;
  std::vector<char> buffer(kReadBytes);
  while (true) {
    const ssize_t got = pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    std::string_view rest(buffer.data(), static_cast<std::size_t>(got));
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      if (!is_too_long) take_in(line.append(rest.substr(0, end)));
      line.clear();
      is_too_long = false;
      rest.remove_prefix(end + 1);
      seen_bytes_ = at + static_cast<std::uint64_t>(got) - rest.size();
    }
    line.append(rest);
    is_too_long = is_too_long || line.size() > kMaxLineBytes;
    if (is_too_long) line.clear();
    at += static_cast<std::uint64_t>(got);
  }
  return at > seen_bytes_;
}

Result<void> Quarantine::append(std::string_view text, bool is_locked) {
  struct stat before{};
  const bool is_size_known = is_locked && fstat(fd_, &before) == 0;
  ssize_t written = -1;
  do {
    written = write(fd_, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(text.size())) return {};
  const std::string cause = written < 0 ? errno_text("write", errno) : "write: cut short";
  if (written > 0 && is_size_known && ftruncate(fd_, before.st_size) != 0) {
    // The piece stays; whoever writes next puts a line end behind it.
  }
  return Failure{ErrorCode::kIo, fmt::format("{}: the quarantine line was not written ({}); free "
                                             "space or name another file",
                                             printable(path_), cause)};
}

Result<void> Quarantine::add_once(const std::string& identity, std::string line) {
  const Identity own = identity_of(identity);
  read_new_lines();  // All of an old file, the first time: not while others wait for the lock.
  const bool is_locked = lock();
  const bool is_torn = read_new_lines();
  Result<void> added;
  if (known_.insert(own).second) {
    // A writer was killed, or its disk was full, in the middle of a line.
    if (is_torn) line.insert(line.begin(), '\n');
    added = append(line, is_locked);
    if (!added) known_.erase(own);
  }
  if (is_locked) unlock();
  return added;
}

Result<void> Quarantine::add(const formats::Dataset& dataset, std::uint64_t sample,
                             std::uint64_t epoch, std::string_view code, std::string_view reason) {
  if (fd_ < 0) return {};
  std::lock_guard lock(mutex_);
  std::unordered_set<std::uint64_t>& listed = listed_[code == formats::BadSample::kFlagged ? 1 : 0];
  if (!listed.insert(sample).second) return {};
  const formats::BadSample described = describe(dataset, sample, epoch, code, reason);
  Result<void> added = is_shared_ ? add_once(identity_text(described), described.to_line())
                                  : append(described.to_line(), /*is_locked=*/false);
  if (!added) listed.erase(sample);
  return added;
}

}  // namespace feedrace::pipeline
