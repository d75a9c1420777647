// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/host/page_cache.h"

namespace feedrace::host {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{8} << 20;
// What a thread has asked for and not confirmed yet: deep enough to keep a disk busy.
constexpr std::uint64_t kWindowBytes = std::uint64_t{8} << 20;
constexpr std::size_t kWindowFiles = 32;
// The kernel cuts a longer request to its own read-ahead, which is seldom less than this.
constexpr std::uint64_t kStepBytes = std::uint64_t{128} << 10;
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

FileDescriptor open_file(const std::string& path) {
  return FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

/// Runs `work` on `thread_count` threads, on fewer where no more can be had, and waits.
void run_on(std::size_t thread_count, const std::function<void()>& work,
            const std::function<void()>& tick) {
  constexpr std::chrono::milliseconds kTick{100};
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t running = 0;
  std::vector<std::jthread> threads;
  bool has_room = true;
  while (has_room && threads.size() < thread_count) {
    std::unique_lock lock(mutex);
    try {
      threads.emplace_back([&] {
        work();
        std::lock_guard guard(mutex);
        --running;
        ended.notify_one();
      });
      ++running;
    } catch (const std::system_error&) {
      has_room = false;
    }
  }
  if (threads.empty()) work();
  std::unique_lock lock(mutex);
  while (!ended.wait_for(lock, kTick, [&] { return running == 0; })) {
    lock.unlock();
    tick();
    lock.lock();
  }
}

/// A stretch of a file.
struct Piece {
  std::size_t file = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  FileDescriptor fd;
};

/// Hands out the pieces of all files in order, to any thread. An empty file has one, empty.
class PieceQueue {
 public:
  explicit PieceQueue(const std::vector<WarmFile>& files) : files_(files) {}

  std::optional<Piece> next() {
    std::lock_guard lock(mutex_);
    if (file_ == files_.size()) return std::nullopt;
    const std::uint64_t left = files_[file_].size_bytes - offset_bytes_;
    Piece piece{file_, offset_bytes_, std::min(left, kPieceBytes), {}};
    offset_bytes_ += piece.size_bytes;
    if (piece.size_bytes == left) {
      ++file_;
      offset_bytes_ = 0;
    }
    return piece;
  }

 private:
  const std::vector<WarmFile>& files_;
  std::mutex mutex_;
  std::size_t file_ = 0;            // Guarded by mutex_.
  std::uint64_t offset_bytes_ = 0;  // Guarded by mutex_. In that file.
};

/// What the threads of one `Warming::read()` share.
class Reading {
 public:
  explicit Reading(const std::vector<WarmFile>& files) : files_(files), queue_(files) {}

  /// The body of each thread.
  void serve() noexcept {
    try {
      serve_pieces();
    } catch (const std::exception& error) {
      fail(ErrorCode::kIo, error.what());
    }
  }

  std::uint64_t done_bytes() const noexcept { return done_bytes_.load(std::memory_order_relaxed); }

  /// After all threads have ended.
  WarmOutcome outcome() {
    std::sort(failed_.begin(), failed_.end());
    const auto end = std::unique(failed_.begin(), failed_.end());
    WarmOutcome outcome;
    outcome.read_bytes = done_bytes();
    outcome.failed_files = static_cast<std::uint64_t>(end - failed_.begin());
    outcome.failure = failure_;
    return outcome;
  }

 private:
  void serve_pieces() {
    std::vector<std::byte> buffer(kBufferBytes);
    std::vector<Piece> window;  // Asked for, not confirmed; a few, so that a vector will do.
    std::uint64_t window_bytes = 0;
    const auto confirm_first = [&] {
      const Piece piece = std::move(window.front());
      window.erase(window.begin());
      window_bytes -= piece.size_bytes;
      confirm(piece, buffer);
    };
    while (auto piece = queue_.next()) {
      if (!ask_for(*piece)) continue;
      window_bytes += piece->size_bytes;
      window.push_back(std::move(*piece));
      while (window_bytes > kWindowBytes || window.size() > kWindowFiles) confirm_first();
    }
    while (!window.empty()) confirm_first();
  }

  bool ask_for(Piece& piece) {
    piece.fd = open_file(files_[piece.file].path);
    if (!piece.fd) {
      fail(piece, errno_text("open", errno), errno);
      return false;
    }
    const std::uint64_t end = piece.offset_bytes + piece.size_bytes;
    for (std::uint64_t at = piece.offset_bytes; at < end; at += kStepBytes) {
      const std::uint64_t step = std::min(kStepBytes, end - at);
      // Where it is refused, `confirm()` finds nothing cached and reads.
      if (readahead(piece.fd.get(), static_cast<off64_t>(at), step) != 0) break;
    }
    return true;
  }

  void confirm(const Piece& piece, std::vector<std::byte>& buffer) {
    if (piece.size_bytes == 0 || is_cached(piece) || read_through(piece, buffer)) {
      done_bytes_.fetch_add(piece.size_bytes, std::memory_order_relaxed);
    }
  }

  bool is_cached(const Piece& piece) {
    if (!kernel_tells_.load(std::memory_order_relaxed)) return false;
    const std::uint64_t end = piece.offset_bytes + piece.size_bytes;
    for (std::uint64_t at = piece.offset_bytes; at < end; at += kStepBytes) {
      std::byte last{};
      const std::uint64_t place = std::min(at + kStepBytes, end) - 1;
      if (pread(piece.fd.get(), &last, 1, static_cast<off_t>(place)) != 1) return false;
    }
    const auto now = residency(piece.fd.get(), piece.offset_bytes, piece.size_bytes);
    if (!now) kernel_tells_.store(false, std::memory_order_relaxed);
    return now && now->cached_bytes >= piece.size_bytes;
  }

  bool read_through(const Piece& piece, std::vector<std::byte>& buffer) {
    std::uint64_t at = piece.offset_bytes;
    const std::uint64_t end = at + piece.size_bytes;
    while (at < end) {
      const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), end - at);
      const ssize_t got = pread(piece.fd.get(), buffer.data(), wanted, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(piece, errno_text("pread", errno), errno);
      if (got == 0) fail(piece, fmt::format("became shorter than {} bytes", end), 0);
      if (got <= 0) return false;
      at += static_cast<std::uint64_t>(got);
    }
    return true;
  }

  void fail(const Piece& piece, const std::string& reason, int error_number) {
    const bool is_missing = error_number == ENOENT || error_number == ENOTDIR;
    fail(is_missing ? ErrorCode::kNotFound : ErrorCode::kIo,
         fmt::format("{}: {}; {}", printable(files_[piece.file].path), reason,
                     is_missing ? "check the path" : "look at its permissions and its disk"));
    std::lock_guard lock(mutex_);
    failed_.push_back(piece.file);
  }

  void fail(ErrorCode code, const std::string& message) {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = Failure{code, message};
  }

  const std::vector<WarmFile>& files_;
  PieceQueue queue_;
  std::atomic<std::uint64_t> done_bytes_{0};
  std::atomic<bool> kernel_tells_{true};
  std::mutex mutex_;
  std::vector<std::size_t> failed_;  // Guarded by mutex_. A file for each piece that failed.
  std::optional<Failure> failure_;   // Guarded by mutex_.
};

}  // namespace

Warming::Warming(std::vector<WarmFile> files, std::uint64_t limit_bytes)
    : files_(std::move(files)) {
  for (const WarmFile& file : files_) total_bytes_ += file.size_bytes;
  std::size_t planned = 0;
  for (; planned < files_.size(); ++planned) {
    std::uint64_t& size_bytes = files_[planned].size_bytes;
    const std::uint64_t left = limit_bytes - planned_bytes_;
    if (left == 0 && size_bytes > 0) break;
    size_bytes = std::min(size_bytes, left);
    planned_bytes_ += size_bytes;
  }
  left_out_files_ = files_.size() - planned;
  files_.resize(planned);
}

WarmOutcome Warming::read(std::size_t thread_count, const OnProgress& on_progress) const {
  Reading reading(files_);
  run_on(
      thread_count, [&] { reading.serve(); },
      [&] {
        if (on_progress) on_progress(reading.done_bytes());
      });
  return reading.outcome();
}

Result<std::uint64_t> Warming::cached_bytes(std::size_t thread_count,
                                            const OnProgress& on_progress) const {
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> cached_bytes{0};
  std::atomic<std::uint64_t> done_bytes{0};
  std::mutex mutex;
  std::optional<Failure> failure;  // Guarded by mutex.
  const auto look = [&]() noexcept {
    for (std::size_t i = next++; i < files_.size(); i = next++) {
      const WarmFile& file = files_[i];
      const FileDescriptor fd = open_file(file.path);
      if (fd && file.size_bytes > 0) {
        const auto now = residency(fd.get(), 0, file.size_bytes);
        if (!now) {
          std::lock_guard lock(mutex);
          failure = now.error();
          next = files_.size();  // The others would hear the same.
          return;
        }
        cached_bytes += std::min(now->cached_bytes, file.size_bytes);
      }
      done_bytes += file.size_bytes;
    }
  };
  run_on(thread_count, look, [&] {
    if (on_progress) on_progress(done_bytes);
  });
  if (failure) return *failure;
  return cached_bytes.load();
}

}  // namespace feedrace::host
