// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/state_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::order {
namespace {

constexpr std::size_t kNamesListed = 3;

bool all_alone(const std::vector<StatePart>& parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [](const StatePart& part) { return part.count == 1; });
}

/// Numbers of the parts whose digests differ, of two that are cut alike.
std::vector<std::size_t> changed_parts(const std::vector<StatePart>& saved,
                                       const std::vector<StatePart>& current) {
  std::vector<std::size_t> changed;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (saved[i].digest != current[i].digest) changed.push_back(i);
  }
  return changed;
}

/// A part, or what a group of them is.
std::string phrase_of(const std::vector<StatePart>& parts, std::size_t i) {
  std::string name = printable(parts[i].name);
  if (parts[i].count == 1) return name;
  if (i + 1 == parts.size()) return fmt::format("something from {} on", name);
  return fmt::format("something among those from {} up to (not including) {}", name,
                     printable(parts[i + 1].name));
}

/// Phrases are fit to print already.
std::string joined(const std::vector<std::string>& phrases) {
  const std::size_t listed = std::min(phrases.size(), kNamesListed);
  const std::size_t more = phrases.size() - listed;
  std::string text;
  for (std::size_t i = 0; i < listed; ++i) {
    const bool is_last = i + 1 == listed && more == 0;
    if (i > 0) text += is_last ? " and " : ", ";
    text += phrases[i];
  }
  if (more > 0) text += fmt::format(" and {} more", more);
  return text;
}

std::string changed_phrase(const std::vector<StatePart>& parts,
                           const std::vector<std::size_t>& changed) {
  std::vector<std::string> phrases;
  phrases.reserve(changed.size());
  for (const std::size_t i : changed) phrases.push_back(phrase_of(parts, i));
  return fmt::format("{} {} changed", joined(phrases), changed.size() == 1 ? "has" : "have");
}

using Digests = std::unordered_map<std::string_view, std::string_view>;

Digests digests_by_name(const std::vector<StatePart>& parts) {
  Digests digests;
  for (const StatePart& part : parts) digests.emplace(part.name, part.digest);
  return digests;
}

void append_clause(std::string& text, const std::vector<std::string>& names, std::string_view one,
                   std::string_view several) {
  if (names.empty()) return;
  if (!text.empty()) text += ", ";
  text += fmt::format("{} {}", some_of(names), names.size() == 1 ? one : several);
}

std::string describe_by_name(const std::vector<StatePart>& saved,
                             const std::vector<StatePart>& current) {
  const Digests then = digests_by_name(saved);
  const Digests now = digests_by_name(current);
  std::vector<std::string> gone;
  std::vector<std::string> changed;
  std::vector<std::string> added;
  for (const StatePart& part : saved) {
    const auto found = now.find(part.name);
    if (found == now.end()) gone.push_back(part.name);
    if (found != now.end() && found->second != part.digest) changed.push_back(part.name);
  }
  for (const StatePart& part : current) {
    if (!then.contains(part.name)) added.push_back(part.name);
  }
  std::string text;
  append_clause(text, gone, "is gone", "are gone");
  append_clause(text, added, "is new", "are new");
  append_clause(text, changed, "has changed", "have changed");
  return text;
}

/// Counts are from outside: a sum may not wrap into a small one.
std::uint64_t total_count(const std::vector<StatePart>& parts) noexcept {
  std::uint64_t total = 0;
  for (const StatePart& part : parts) {
    total = part.count > ~std::uint64_t{0} - total ? ~std::uint64_t{0} : total + part.count;
  }
  return total;
}

}  // namespace

std::string some_of(const std::vector<std::string>& names) {
  std::vector<std::string> phrases;
  phrases.reserve(names.size());
  for (const std::string& name : names) phrases.push_back(printable(name));
  return joined(phrases);
}

bool same_cut(const std::vector<StatePart>& saved, const std::vector<StatePart>& current) {
  return std::equal(saved.begin(), saved.end(), current.begin(), current.end(),
                    [](const StatePart& a, const StatePart& b) {
                      return a.name == b.name && a.count == b.count;
                    });
}

std::string describe_changed(const std::vector<StatePart>& saved,
                             const std::vector<StatePart>& current) {
  const std::vector<std::size_t> changed = changed_parts(saved, current);
  if (changed.empty()) return "";
  const std::size_t first = changed.front();
  return fmt::format("{} since the state was saved ({} differ; digest {} then, {} now)",
                     changed_phrase(saved, changed),
                     changed.size() == 1 && saved[first].count == 1 ? "its bytes" : "bytes",
                     printable(saved[first].digest), printable(current[first].digest));
}

std::string describe_parts(const std::vector<StatePart>& saved,
                           const std::vector<StatePart>& current) {
  if (saved.empty() || current.empty()) return "";
  if (all_alone(saved) && all_alone(current)) return describe_by_name(saved, current);
  if (same_cut(saved, current)) {
    const std::vector<std::size_t> changed = changed_parts(saved, current);
    return changed.empty() ? "" : changed_phrase(saved, changed);
  }
  const std::uint64_t then = total_count(saved);
  const std::uint64_t now = total_count(current);
  return then == now ? "" : fmt::format("{} shards or folders then, {} now", then, now);
}

}  // namespace feedrace::order
