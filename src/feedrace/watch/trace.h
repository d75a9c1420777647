// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "feedrace/watch/trace_events.h"

namespace feedrace::watch {

/// What one thread does, in the order in which it ends. One producer, one reader, neither waits:
/// what finds no room is dropped and counted.
class TraceLane {
 public:
  TraceLane(TraceStage stage, std::size_t number) : stage_(stage), number_(number) {}

  TraceStage stage() const noexcept { return stage_; }
  std::size_t number() const noexcept { return number_; }

  /// Before anything is pushed.
  void reserve() { events_.resize(kCapacity); }

  /// Of the thread that the lane is of.
  void push(const TraceEvent& event) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) >= kCapacity) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    events_[head % kCapacity] = event;
    head_.store(head + 1, std::memory_order_release);
  }

  /// Of the writer: what has come since it asked last.
  template <typename Take>
  void drain(const Take& take) {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    for (std::uint64_t at = tail_.load(std::memory_order_relaxed); at != head; ++at) {
      take(events_[at % kCapacity]);
      tail_.store(at + 1, std::memory_order_release);
    }
  }
  /// What was dropped since it was asked last.
  std::uint64_t take_dropped() noexcept { return dropped_.exchange(0, std::memory_order_relaxed); }

 private:
  // 10 ms of a thread that does something every 2.5 us; 160 KiB.
  static constexpr std::size_t kCapacity = 4096;

  const TraceStage stage_;
  const std::size_t number_;
  std::atomic<std::uint64_t> head_ = 0;
  std::atomic<std::uint64_t> tail_ = 0;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::vector<TraceEvent> events_;  // Empty until the first trace.
};

/// Tells a profiler what the calling thread does, as NVTX has it: ranges nest. Null: nobody is
/// told.
struct RangeCalls {
  void (*begin)(const char* name) = nullptr;
  void (*end)() = nullptr;
};

/// A range while it lives. Of one thread.
class Range {
 public:
  Range(const RangeCalls& calls, const char* name) : calls_(calls) {
    if (calls_.begin != nullptr) calls_.begin(name);
  }
  ~Range() {
    if (calls_.begin != nullptr) calls_.end();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const RangeCalls calls_;
};

/// Writes what the threads of one loader do to a file, as Chrome and Perfetto read it: a JSON list,
/// a line an event. Off, a thread pays one look at a flag. Memory is bounded; the file says how
/// much was dropped. `start` and `stop` belong to one thread at a time, the rest to any.
class Trace {
 public:
  /// A level at this moment: "decode queue", 12.
  using Levels = std::vector<std::pair<const char*, std::uint64_t>>;
  using AskLevels = std::function<Levels()>;
  /// Told why the file ends early, once, on the writer's thread.
  using Complain = std::function<void(const std::string& sentence)>;

  /// Profilers are told by `ranges`, whether a file is written or not.
  explicit Trace(RangeCalls ranges = {});
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  bool is_on() const noexcept { return is_on_.load(std::memory_order_acquire); }
  const RangeCalls& ranges() const noexcept { return ranges_; }
  /// The lane of a thread, which it keeps; the same again for the thread that follows it.
  std::shared_ptr<TraceLane> lane(TraceStage stage, std::size_t number);

  /// Throws Error: kInvalidArgument when it is on already, kIo when the file can't be made.
  void start(const std::string& path, AskLevels ask_levels, Complain complain);
  /// Ends the file. Does nothing when it is off. Throws Error kIo when it could not be written.
  void stop();

 private:
  class Writer;

  std::vector<std::shared_ptr<TraceLane>> lanes();

  const RangeCalls ranges_;
  std::atomic<bool> is_on_ = false;
  std::mutex mutex_;
  std::vector<std::shared_ptr<TraceLane>> lanes_;  // Guarded by mutex_.
  std::unique_ptr<Writer> writer_;
};

/// How a thread tells what it does. Copies are of the same thread.
class Tracing {
 public:
  Tracing() = default;  ///< Tells nobody.
  Tracing(Trace& trace, TraceStage stage, std::size_t number)
      : trace_(&trace), lane_(trace.lane(stage, number)), ranges_(trace.ranges()) {}

  bool is_on() const noexcept { return trace_ != nullptr && trace_->is_on(); }
  void span(TraceKind kind, TraceTime begin, TraceTime end, std::uint64_t subject = 0,
            std::uint64_t batch = 0) const noexcept {
    if (is_on()) lane_->push({kind, trace_ns(begin), trace_ns(end), subject, batch});
  }
  /// A batch comes to this point of its way. A viewer ties the point to the span around it, so it
  /// lies in [begin, end) of one that is told too.
  void mark(TraceKind kind, TraceTime when, std::uint64_t batch) const noexcept {
    span(kind, when, when, 0, batch);
  }
  /// For profilers: what this thread does until the range dies.
  Range range(TraceKind kind) const { return {ranges_, to_string(kind)}; }
  const RangeCalls& ranges() const noexcept { return ranges_; }

 private:
  Trace* trace_ = nullptr;
  std::shared_ptr<TraceLane> lane_;
  RangeCalls ranges_;
};

}  // namespace feedrace::watch
