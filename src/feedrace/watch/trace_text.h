// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/watch/trace_events.h"

namespace feedrace::watch {

/// Whether a file that begins so is a trace that was written by `TraceText`.
bool is_trace(std::string_view head);

/// Turns events into lines of the JSON that Chrome and Perfetto read ("Trace Event Format", JSON
/// list). Stages are its processes, in the order of the way of a sample, so that a viewer shows
/// them one below the other; lanes are its threads. Not thread-safe.
class TraceText {
 public:
  /// Nothing from before is told, so that no event begins outside of the file.
  explicit TraceText(std::uint64_t start_ns) : start_ns_(start_ns) {}

  /// Behind the last line nothing: a line is ended when the next begins.
  void begin(std::string& out);
  void name_lane(std::string& out, TraceStage stage, std::size_t number);
  void add(std::string& out, TraceStage stage, std::size_t number, const TraceEvent& event);
  /// After a round over the lanes that began with the consumer's: draws the ways of the batches
  /// that it had, as all that led there has been added by then.
  void draw_ways(std::string& out);
  /// A level, where it is another than before.
  void level(std::string& out, const char* name, std::uint64_t now_ns, std::uint64_t value);
  /// With what was dropped.
  void end(std::string& out, std::uint64_t now_ns, std::uint64_t dropped);

  std::uint64_t events() const noexcept { return events_; }

 private:
  struct Point {
    TraceStage stage = TraceStage::kRead;
    std::size_t number = 0;
    std::uint64_t at_ns = 0;
  };
  /// The way of a batch, as far as it is known: by `Stop`; points come in any order.
  using Way = std::array<std::optional<Point>, 3>;

  void line(std::string& out);
  void span(std::string& out, TraceStage stage, std::size_t number, const TraceEvent& event);
  void read_in_flight(std::string& out, std::size_t number, const TraceEvent& event);
  /// Of a batch, in the order of its way.
  enum Stop : std::uint8_t { kIsRead, kIsFull, kIsTaken };

  Way& way_of(std::uint64_t batch);
  void flow(std::string& out, const Way& way, std::uint64_t batch);

  const std::uint64_t start_ns_;
  std::uint64_t events_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t flows_ = 0;
  std::map<std::uint64_t, Way> ways_;  // By batch.
  std::vector<std::uint64_t> taken_;   // Batches that the consumer has had in this round.
  std::map<const char*, std::uint64_t> levels_;
};

}  // namespace feedrace::watch
