// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/block_events.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>

namespace feedrace::view {
namespace {

constexpr std::string_view kIssue = ": block_rq_issue: ";
constexpr std::string_view kComplete = ": block_rq_complete: ";
constexpr std::string_view kLost = "[LOST ";
// No machine has as many in flight; requests whose completion was lost would stay for ever.
constexpr std::size_t kMostInFlight = 65536;

std::optional<std::uint64_t> number_at_front(std::string_view text) {
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// "... 1234.567890" as nanoseconds. Microseconds are what the text has.
std::optional<std::uint64_t> time_of(std::string_view head) {
  const std::string_view word = head.substr(head.find_last_of(' ') + 1);
  const std::size_t point = word.find('.');
  if (point == std::string_view::npos || word.size() != point + 7) return std::nullopt;
  const auto seconds = number_at_front(word);
  const auto micros = number_at_front(word.substr(point + 1));
  if (!seconds || !micros) return std::nullopt;
  return *seconds * 1'000'000'000 + *micros * 1000;
}

struct Event {
  std::string device;
  bool is_read = false;
  std::uint64_t sector = 0;
};

/// "253,0 RA 131072 () 2048 + 256 none,0,0 [name]"; of a completion without the size.
std::optional<Event> event_of(std::string_view text) {
  const std::size_t device_end = text.find(' ');
  if (device_end == std::string_view::npos) return std::nullopt;
  Event event;
  event.device = text.substr(0, device_end);
  std::replace(event.device.begin(), event.device.end(), ',', ':');
  const std::string_view kind = text.substr(device_end + 1);
  event.is_read = kind.starts_with('R');
  const std::size_t command_end = kind.find(") ");
  if (command_end == std::string_view::npos) return std::nullopt;
  const auto sector = number_at_front(kind.substr(command_end + 2));
  if (!sector) return std::nullopt;
  event.sector = *sector;
  return event;
}

}  // namespace

void BlockEvents::add(std::string_view line) {
  if (const std::size_t at = line.find(kLost); at != std::string_view::npos) {
    lost_ += number_at_front(line.substr(at + kLost.size())).value_or(0);
    return;
  }
  const std::size_t issue = line.find(kIssue);
  const bool is_issue = issue != std::string_view::npos;
  const std::size_t at = is_issue ? issue : line.find(kComplete);
  if (at == std::string_view::npos) return;
  const auto time_ns = time_of(line.substr(0, at));
  const auto event = event_of(line.substr(at + (is_issue ? kIssue.size() : kComplete.size())));
  if (!time_ns || !event || !event->is_read) return;
  const Request request(event->device, event->sector);
  if (is_issue) {
    if (issued_ns_.size() >= kMostInFlight) {
      lost_ += issued_ns_.size();
      issued_ns_.clear();
    }
    issued_ns_[request] = *time_ns;
    return;
  }
  const auto known = issued_ns_.find(request);
  if (known == issued_ns_.end()) return;
  // Events of two cores may come in the wrong order by a little.
  latencies_[event->device].record(*time_ns > known->second ? *time_ns - known->second : 0);
  issued_ns_.erase(known);
}

void BlockEvents::reset() {
  latencies_.clear();
  lost_ = 0;
}

}  // namespace feedrace::view
