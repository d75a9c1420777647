// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/findings.h"

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::formats {

Findings::Kind& Findings::kind_of(std::string_view what) {
  for (Kind& kind : kinds_) {
    if (kind.what == what) return kind;
  }
  kinds_.push_back({std::string(what), 0, {}});
  return kinds_.back();
}

void Findings::add(std::string_view what, std::string_view name, std::uint64_t count) {
  Kind& kind = kind_of(what);
  kind.count += count;
  if (kind.names.size() < kNamesKept) kind.names.emplace_back(name);
}

void Findings::merge(const Findings& other, std::string_view prefix) {
  for (const Kind& theirs : other.kinds_) {
    Kind& ours = kind_of(theirs.what);
    ours.count += theirs.count;
    for (const std::string& name : theirs.names) {
      if (ours.names.size() == kNamesKept) break;
      const bool both = !prefix.empty() && !name.empty();
      ours.names.push_back(std::string(prefix) + (both ? " " : "") + name);
    }
  }
}

std::vector<std::string> Findings::lines(std::string_view place) const {
  std::vector<std::string> lines;
  for (const Kind& kind : kinds_) {
    std::string names;
    for (const std::string& name : kind.names) {
      if (!names.empty()) names += ", ";
      names += printable(name);
    }
    if (kind.count > kind.names.size()) names += ", ...";
    lines.push_back(fmt::format("{}: {}{}{} ({} in all)", printable(place), kind.what,
                                names.empty() ? "" : ": ", names, with_commas(kind.count)));
  }
  return lines;
}

}  // namespace feedrace::formats
