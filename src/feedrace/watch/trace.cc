// SPDX-License-Identifier: Apache-2.0
#include "feedrace/watch/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/open_output.h"
#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/watch/trace_text.h"

namespace feedrace::watch {
namespace {

// How often lanes are emptied and levels asked for.
constexpr std::chrono::milliseconds kCycle{10};

std::uint64_t now_ns() { return trace_ns(std::chrono::steady_clock::now()); }

}  // namespace

/// The thread that empties the lanes into the file.
class Trace::Writer {
 public:
  Writer(Trace& trace, const std::string& path, AskLevels ask_levels, Complain complain)
      : trace_(trace),
        path_(path),
        ask_levels_(std::move(ask_levels)),
        complain_(std::move(complain)),
        text_(now_ns()) {
    fd_ = open_output(path, O_CREAT | O_TRUNC);
    if (fd_ < 0) {
      const bool is_unread_pipe = errno == ENXIO;
      throw Error(ErrorCode::kIo,
                  fmt::format("{}: {}; {}", printable(path), errno_text("open", errno),
                              is_unread_pipe ? "a pipe that nobody reads: start its reader first"
                                             : "name a trace file that can be written"));
    }
    try {
      thread_ = std::thread([this] { run(); });
    } catch (...) {
      ::close(fd_);
      throw;
    }
  }

  ~Writer() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    ending_.notify_all();
    thread_.join();
    ::close(fd_);
  }

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Ends the thread; why the file is not whole, else empty.
  std::string finish() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    ending_.notify_all();
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return has_ended_; });
    return failure_;
  }

 private:
  void run() noexcept {
    try {
      write_all();
    } catch (const std::exception& error) {  // No memory, or a level that could not be asked for.
      fail(fmt::format("{}: the trace ends early ({})", printable(path_), error.what()));
    }
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    ended_.notify_all();
  }

  void write_all() {
    std::string out;
    text_.begin(out);
    for (bool is_last = false; !is_last;) {
      {
        std::unique_lock lock(mutex_);
        is_last = ending_.wait_for(lock, kCycle, [this] { return is_ending_; });
      }
      for (const auto& [name, value] : ask_levels_()) text_.level(out, name, now_ns(), value);
      collect(out);
      if (is_last) text_.end(out, now_ns(), dropped_);
      if (!flush(out)) return;
    }
  }

  /// The consumer's lane is the first, as it is made with the loader: a batch that it has had is
  /// decoded, and that stands in the lanes that are emptied after its own.
  void collect(std::string& out) {
    const auto lanes = trace_.lanes();
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      TraceLane& lane = *lanes[i];
      if (i >= named_) text_.name_lane(out, lane.stage(), lane.number());
      lane.drain(
          [&](const TraceEvent& event) { text_.add(out, lane.stage(), lane.number(), event); });
      dropped_ += lane.take_dropped();
    }
    text_.draw_ways(out);
    named_ = lanes.size();
  }

  /// False when the file can't be written any more.
  bool flush(std::string& out) {
    std::string_view rest = out;
    while (!rest.empty()) {
      const ssize_t written = ::write(fd_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        fail(fmt::format("{}: {}; the trace ends early: free room there, or name another file",
                         printable(path_), errno_text("write", errno)));
        return false;
      }
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    out.clear();
    return true;
  }

  void fail(std::string sentence) noexcept {
    trace_.is_on_ = false;
    try {
      complain_(sentence);
    } catch (...) {  // NOLINT(bugprone-empty-catch): `stop` says it too.
    }
    const std::lock_guard lock(mutex_);
    failure_ = std::move(sentence);
  }

  Trace& trace_;
  const std::string path_;
  const AskLevels ask_levels_;
  const Complain complain_;
  TraceText text_;
  int fd_ = -1;
  std::size_t named_ = 0;  // Of the lanes, those that have their name in the file.
  std::uint64_t dropped_ = 0;
  std::mutex mutex_;
  std::condition_variable ending_;
  std::condition_variable ended_;
  bool is_ending_ = false;  // Guarded by mutex_.
  bool has_ended_ = false;  // Guarded by mutex_.
  std::string failure_;     // Guarded by mutex_.
  std::thread thread_;
};

Trace::Trace(RangeCalls ranges) : ranges_(ranges) {}

Trace::~Trace() {
  is_on_ = false;
  writer_.reset();
}

std::vector<std::shared_ptr<TraceLane>> Trace::lanes() {
  const std::lock_guard lock(mutex_);
  return lanes_;
}

std::shared_ptr<TraceLane> Trace::lane(TraceStage stage, std::size_t number) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& lane) {
    return lane->stage() == stage && lane->number() == number;
  });
  if (known != lanes_.end()) return *known;
  const auto& made = lanes_.emplace_back(std::make_shared<TraceLane>(stage, number));
  if (is_on_) made->reserve();
  return made;
}

void Trace::start(const std::string& path, AskLevels ask_levels, Complain complain) {
  if (writer_) {
    throw Error(ErrorCode::kInvalidArgument,
                "a trace is being written already; stop it before the next begins");
  }
  for (const auto& lane : lanes()) {
    lane->drain([](const TraceEvent&) {});  // What came too late for the last file.
    lane->take_dropped();
  }
  writer_ = std::make_unique<Writer>(*this, path, std::move(ask_levels), std::move(complain));
  const std::lock_guard lock(mutex_);
  for (const auto& lane : lanes_) lane->reserve();
  is_on_ = true;
}

void Trace::stop() {
  if (!writer_) return;
  is_on_ = false;
  const std::string failure = writer_->finish();
  writer_.reset();
  if (!failure.empty()) throw Error(ErrorCode::kIo, failure);
}

}  // namespace feedrace::watch
