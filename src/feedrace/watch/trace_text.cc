// SPDX-License-Identifier: Apache-2.0
#include "feedrace/watch/trace_text.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace feedrace::watch {
namespace {

// Counters stand in a group of their own, above the stages.
constexpr int kLevelsProcess = 1;
// Of an arrow: where it starts, a step, and its finish.
constexpr std::array<char, 3> kPhases = {'s', 't', 'f'};
// More batches are never on their way: those that the consumer never took are forgotten.
constexpr std::size_t kMaxWays = 4096;

int process_of(TraceStage stage) { return kLevelsProcess + 1 + static_cast<int>(stage); }

const char* stage_name(TraceStage stage) {
  switch (stage) {
    case TraceStage::kRead:
      return "1 I/O prefetch";
    case TraceStage::kDecode:
      return "2 decode and augment";
    case TraceStage::kDevice:
      return "3 to the GPU";
    case TraceStage::kConsumer:
      break;
  }
  return "4 training";
}

const char* thread_name(TraceStage stage) {
  switch (stage) {
    case TraceStage::kRead:
      return "reader";
    case TraceStage::kDecode:
      return "decode";
    case TraceStage::kDevice:
      return "device";
    case TraceStage::kConsumer:
      break;
  }
  return "consumer";
}

/// Microseconds, to the nanosecond: rounding would make spans stick out of each other.
struct Micros {
  std::uint64_t ns = 0;
};

void put(std::string& out, const Micros& time) {
  fmt::format_to(std::back_inserter(out), "{}.{:03}", time.ns / 1000, time.ns % 1000);
}

void put_place(std::string& out, int process, std::size_t number, const Micros& time) {
  fmt::format_to(std::back_inserter(out), R"("pid":{},"tid":{},"ts":)", process, number + 1);
  put(out, time);
}

}  // namespace

const char* to_string(TraceKind kind) noexcept {
  switch (kind) {
    case TraceKind::kChoose:
      return "choose and submit";
    case TraceKind::kRoom:
      return "wait for room";
    case TraceKind::kAwaitRead:
      return "wait for storage";
    case TraceKind::kHandOn:
      return "hand on";
    case TraceKind::kAwaitWork:
      return "wait for a sample";
    case TraceKind::kDecode:
      return "decode and augment";
    case TraceKind::kAwaitBatch:
      return "wait for a batch";
    case TraceKind::kDevice:
      return "decode and copy";
    case TraceKind::kNext:
      return "next(): wait for a batch";
    case TraceKind::kTrain:
      return "train";
    default:
      return "read";
  }
}

void TraceText::line(std::string& out) { out += events_++ == 0 ? "\n" : ",\n"; }

bool is_trace(std::string_view head) {
  return head.starts_with('[') && head.find(R"("name":"process_name")") != std::string_view::npos;
}

void TraceText::begin(std::string& out) {
  out += '[';
  const auto name_process = [&](int process, const char* name) {
    line(out);
    fmt::format_to(std::back_inserter(out),
                   R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"{}"}}}})", process,
                   name);
    line(out);
    fmt::format_to(
        std::back_inserter(out),
        R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})", process,
        process);
  };
  name_process(kLevelsProcess, "queues");
  for (std::size_t i = 0; i < kTraceStageCount; ++i) {
    const auto stage = static_cast<TraceStage>(i);
    name_process(process_of(stage), stage_name(stage));
  }
}

void TraceText::name_lane(std::string& out, TraceStage stage, std::size_t number) {
  line(out);
  const bool is_only = stage == TraceStage::kDevice || stage == TraceStage::kConsumer;
  fmt::format_to(std::back_inserter(out),
                 R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}{}"}}}})",
                 process_of(stage), number + 1, thread_name(stage),
                 is_only ? "" : fmt::format(" {}", number));
}

void TraceText::add(std::string& out, TraceStage stage, std::size_t number,
                    const TraceEvent& event) {
  // Of one that began before the file there is no begin to show.
  if (event.begin_ns < start_ns_) return;
  switch (event.kind) {
    case TraceKind::kRead:
      return read_in_flight(out, number, event);
    case TraceKind::kBatchRead: {
      // Of several readers, the one that had the batch's first sample.
      std::optional<Point>& first = way_of(event.batch)[kIsRead];
      if (!first || event.begin_ns < first->at_ns) first = {stage, number, event.begin_ns};
      return;
    }
    case TraceKind::kBatchTaken:
      way_of(event.batch)[kIsTaken] = {stage, number, event.begin_ns};
      taken_.push_back(event.batch);
      return;
    case TraceKind::kDecode: {
      // A point is tied to the span around it, so it lies just before its end.
      std::optional<Point>& last = way_of(event.batch)[kIsFull];
      const std::uint64_t end_ns = std::max(event.begin_ns, event.end_ns - 1);
      if (!last || end_ns > last->at_ns) last = {stage, number, end_ns};
      return span(out, stage, number, event);
    }
    default:
      return span(out, stage, number, event);
  }
}

void TraceText::span(std::string& out, TraceStage stage, std::size_t number,
                     const TraceEvent& event) {
  line(out);
  fmt::format_to(std::back_inserter(out), R"({{"ph":"X","name":"{}",)", to_string(event.kind));
  put_place(out, process_of(stage), number, {event.begin_ns - start_ns_});
  out += R"(,"dur":)";
  put(out, {event.end_ns - event.begin_ns});
  const bool has_sample = event.kind == TraceKind::kDecode;
  const bool has_batch =
      has_sample || event.kind == TraceKind::kDevice || event.kind == TraceKind::kTrain;
  if (has_batch) {
    fmt::format_to(std::back_inserter(out), R"(,"args":{{"epoch":{},"step":{})",
                   epoch_of_batch(event.batch), step_of_batch(event.batch));
    if (has_sample) fmt::format_to(std::back_inserter(out), R"(,"sample":{})", event.subject);
    out += '}';
  }
  out += '}';
}

/// Reads overlap, so they are asynchronous events: a viewer stacks them.
void TraceText::read_in_flight(std::string& out, std::size_t number, const TraceEvent& event) {
  const std::uint64_t id = ++reads_;
  const int process = process_of(TraceStage::kRead);
  line(out);
  fmt::format_to(std::back_inserter(out), R"({{"ph":"b","cat":"read","name":"read","id":{},)", id);
  put_place(out, process, number, {event.begin_ns - start_ns_});
  fmt::format_to(std::back_inserter(out), R"(,"args":{{"sample":{},"bytes":{}}}}})", event.subject,
                 event.batch);
  line(out);
  fmt::format_to(std::back_inserter(out), R"({{"ph":"e","cat":"read","name":"read","id":{},)", id);
  put_place(out, process, number, {event.end_ns - start_ns_});
  out += '}';
}

TraceText::Way& TraceText::way_of(std::uint64_t batch) {
  if (ways_.size() >= kMaxWays && !ways_.contains(batch)) ways_.erase(ways_.begin());
  return ways_[batch];
}

/// An arrow is drawn once both ends and its middle are known, so none is left hanging.
void TraceText::draw_ways(std::string& out) {
  for (const std::uint64_t batch : taken_) {
    const auto way = ways_.find(batch);
    if (way == ways_.end()) continue;
    const auto is_known = [](const std::optional<Point>& point) { return point.has_value(); };
    if (std::all_of(way->second.begin(), way->second.end(), is_known)) {
      flow(out, way->second, batch);
    }
    ways_.erase(way);
  }
  taken_.clear();
}

void TraceText::flow(std::string& out, const Way& way, std::uint64_t batch) {
  const std::uint64_t id = ++flows_;
  for (std::size_t i = 0; i < way.size(); ++i) {
    const Point& at = *way.at(i);
    line(out);
    fmt::format_to(
        std::back_inserter(out),
        R"({{"ph":"{}","bp":"e","cat":"batch","name":"batch","id":{},"args":{{"epoch":{},"step":{}}},)",
        kPhases.at(i), id, epoch_of_batch(batch), step_of_batch(batch));
    put_place(out, process_of(at.stage), at.number, {at.at_ns - start_ns_});
    out += '}';
  }
}

void TraceText::level(std::string& out, const char* name, std::uint64_t now_ns,
                      std::uint64_t value) {
  const auto [known, is_new] = levels_.try_emplace(name, value);
  if (!is_new && known->second == value) return;
  known->second = value;
  line(out);
  fmt::format_to(std::back_inserter(out), R"({{"ph":"C","name":"{}",)", name);
  put_place(out, kLevelsProcess, 0, {now_ns - start_ns_});
  fmt::format_to(std::back_inserter(out), R"(,"args":{{"value":{}}}}})", value);
}

void TraceText::end(std::string& out, std::uint64_t now_ns, std::uint64_t dropped) {
  const std::uint64_t told = events_;
  line(out);
  fmt::format_to(std::back_inserter(out), R"({{"ph":"i","s":"g","name":"end of the trace",)");
  put_place(out, kLevelsProcess, 0, {now_ns - start_ns_});
  fmt::format_to(std::back_inserter(out), R"(,"args":{{"events":{},"dropped_events":{}}}}})", told,
                 dropped);
  out += "\n]\n";
}

}  // namespace feedrace::watch
