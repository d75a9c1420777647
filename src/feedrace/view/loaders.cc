// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/loaders.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"
#include "feedrace/view/host_use.h"
#include "feedrace/view/latency.h"
#include "feedrace/watch/counters.h"
#include "feedrace/watch/listening.h"

namespace feedrace::view {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kAnswerMs = 500;
constexpr std::size_t kMostAskers = 64;

/// A member of a member, or null.
const nlohmann::json& at(const nlohmann::json& told, const char* group, const std::string& name) {
  static const nlohmann::json kNothing;
  const auto found = told.find(group);
  if (found == told.end() || !found->is_object()) return kNothing;
  const auto inner = found->find(name);
  return inner == found->end() ? kNothing : *inner;
}

double number(const nlohmann::json& value) { return value.is_number() ? value.get<double>() : 0; }
double counter(const LoaderLook& look, const std::string& name) {
  return number(at(look.told, "counters", name));
}
double counter(const LoaderLook& look, const std::string& name, const std::string& member) {
  const nlohmann::json& group = at(look.told, "counters", name);
  return group.is_object() && group.contains(member) ? number(group[member]) : 0;
}

std::string fact(const LoaderLook& look, const char* name) {
  const nlohmann::json& value = at(look.told, "facts", name);
  return value.is_string() ? printable(value.get<std::string>()) : "";
}

std::vector<std::string> members(const LoaderLook& look, const std::string& name) {
  std::vector<std::string> found;
  const nlohmann::json& group = at(look.told, "counters", name);
  if (!group.is_object()) return found;
  for (const auto& item : group.items()) found.push_back(item.key());
  return found;
}

Json stages_between(const LoaderLook& before, const LoaderLook& after) {
  Json stages = Json::object();
  // In the order of the way of a sample, which JSON objects don't keep.
  std::vector<std::string> names;
  const std::vector<std::string> told = members(after, "stage_busy_seconds");
  for (const char* known : {"io", "decode", "device", "consumer"}) {
    if (std::find(told.begin(), told.end(), known) != told.end()) names.emplace_back(known);
  }
  for (const std::string& stage : names) {
    const auto grown = [&](const char* name) {
      return std::max(0.0, counter(after, name, stage) - counter(before, name, stage));
    };
    const double busy = grown("stage_busy_seconds");
    const double wait = grown("stage_wait_seconds");
    stages[stage] = {{"threads", counter(after, "stage_threads", stage)},
                     {"busy_share", busy + wait > 0 ? busy / (busy + wait) : 0},
                     {"busy_seconds", busy},
                     {"wait_seconds", wait},
                     {"cpu_seconds", grown("stage_cpu_seconds")},
                     {"items", grown("stage_items")}};
  }
  return stages;
}

/// Of what came by way of the page cache, the share that no device was asked for; null where it
/// can't be seen.
Json page_cache_hits(const LoaderLook& before, const LoaderLook& after) {
  const double cached =
      counter(after, "read_bytes", "page_cache") - counter(before, "read_bytes", "page_cache");
  if (cached <= 0 || !before.device_bytes || !after.device_bytes) return nullptr;
  // Smaller than before: the number is another process's by now, of this or of another container.
  if (*after.device_bytes < *before.device_bytes) return nullptr;
  const auto from_device = static_cast<double>(*after.device_bytes - *before.device_bytes);
  return std::clamp(1 - from_device / cached, 0.0, 1.0);
}

/// What the page cache holds of a loader's data set.
Result<CachedShare> cached_of(const std::string& socket) {
  const auto answer = watch::ask_socket(socket, "/places", kAnswerMs);
  if (!answer) return answer.error();
  const auto places = watch::places_from_json(parse_shallow_json(*answer));
  if (!places) {
    return Failure{ErrorCode::kUnsupported, printable(socket) + ": an answer that is no places"};
  }
  return cached_share(*places);
}

Json cached_json(const Result<CachedShare>& cached) {
  if (!cached) return {{"missing", printable(cached.error().message)}};
  return {{"share", cached->share}, {"samples", cached->samples}};
}

/// Counters and ages of a loader: an exabyte is more than any has read.
bool has_likely_figures(const nlohmann::json& told) {
  constexpr double kMost = 1e18;
  if (told.is_structured()) return std::ranges::all_of(told, has_likely_figures);
  if (!told.is_number()) return true;
  const double value = told.get<double>();
  return value >= 0 && value <= kMost;
}

/// Of one loader; a sentence where it does not answer.
Result<LoaderLook> look_at_socket(const std::string& socket, const std::string& root) {
  const auto answer = watch::ask_socket(socket, "/stats", kAnswerMs);
  if (!answer) return answer.error();
  LoaderLook look;
  look.socket = socket;
  look.told = parse_shallow_json(*answer);
  if (look.told.is_discarded() || !look.told.is_object()) {
    return Failure{ErrorCode::kIo,
                   printable(socket) + ": no answer of a loader, or half of one that was ending"};
  }
  if (look.pid() == 0 || !has_likely_figures(look.told)) {
    return Failure{ErrorCode::kIo, printable(socket) + ": answers what no loader would; not shown"};
  }
  look.device_bytes = device_bytes_of(look.pid(), root);
  look.cached = cached_of(socket);
  return look;
}

}  // namespace

std::uint64_t LoaderLook::pid() const {
  const std::string text = fact(*this, "pid");
  std::uint64_t pid = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  return error == std::errc() ? pid : 0;
}

LoaderLooks look_at_loaders(const std::vector<std::string>& folders, const std::string& root) {
  std::vector<std::string> sockets;
  for (const std::string& folder : folders) {
    const std::vector<std::string> found = watch::find_sockets(folder);
    sockets.insert(sockets.end(), found.begin(), found.end());
  }
  std::vector<Result<LoaderLook>> answers(sockets.size(), Failure{ErrorCode::kIo, "not asked"});
  // At once: those that are stopped take all of their time to say nothing.
  std::atomic<std::size_t> next = 0;
  const auto ask = [&] {
    for (std::size_t i = next++; i < sockets.size(); i = next++) {
      answers[i] = look_at_socket(sockets[i], root);
    }
  };
  {
    std::vector<std::jthread> askers;
    while (askers.size() + 1 < std::min(kMostAskers, sockets.size())) {
      try {
        askers.emplace_back(ask);
      } catch (const std::system_error&) {
        break;  // Fewer ask one after another.
      }
    }
    ask();
  }
  LoaderLooks looks;
  for (Result<LoaderLook>& answer : answers) {
    if (answer) {
      looks.loaders.push_back(*std::move(answer));
    } else {
      looks.silent.push_back(answer.error().message);
    }
  }
  return looks;
}

Json loader_between(const LoaderLook& before, const LoaderLook& after) {
  const double seconds = counter(after, "age_seconds") - counter(before, "age_seconds");
  const auto rate = [&](double grown) { return seconds > 0 ? std::max(0.0, grown) / seconds : 0; };
  const auto rate_of = [&](const char* name) {
    return rate(counter(after, name) - counter(before, name));
  };
  Json one;
  one["pid"] = after.pid();
  for (const char* name : {"data", "backend", "device", "batch_size", "rank", "world_size"}) {
    one[name] = fact(after, name);
  }
  one["samples"] = counter(after, "samples");
  one["bad_samples"] = counter(after, "bad_samples");
  one["samples_per_second"] = rate_of("samples");
  one["batches_per_second"] = rate_of("batches");
  one["reads_per_second"] = rate_of("reads");
  one["read_bytes_per_second"] = Json::object();
  for (const std::string& path : members(after, "read_bytes")) {
    const double grown = counter(after, "read_bytes", path) - counter(before, "read_bytes", path);
    if (grown > 0) one["read_bytes_per_second"][printable(path)] = rate(grown);
  }
  one["copies_per_byte"] = counter(after, "copies_per_byte");
  one["page_cache_hit_share"] = page_cache_hits(before, after);
  one["data_cached"] = cached_json(after.cached);
  const nlohmann::json& latency = at(after.told, "counters", "read_latency_seconds");
  one["read_latency"] =
      latency_between(at(before.told, "counters", "read_latency_seconds"), latency);
  for (const char* quantile : {"p50", "p99"}) {
    const bool is_there = latency.is_object() && latency.contains(quantile);
    one["read_latency_ms"][quantile] = is_there ? 1e3 * number(latency[quantile]) : 0;
  }
  one["stages"] = stages_between(before, after);
  one["queues"] = Json::object();
  for (const std::string& queue : members(after, "queue_length")) {
    one["queues"][printable(queue)] = counter(after, "queue_length", queue);
  }
  const auto verdict = after.told.find("verdict");
  const bool has_verdict = verdict != after.told.end() && verdict->is_string();
  one["verdict"] = has_verdict ? printable(verdict->get<std::string>()) : "";
  return one;
}

}  // namespace feedrace::view
