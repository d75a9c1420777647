// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/exclude_list.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/bad_sample.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/list_lines.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::pack {
namespace {

std::string name_of(std::string_view shard, std::string_view key) {
  return fmt::format("{}{}{}", shard, '\0', key);
}

}  // namespace

ExcludeList::ExcludeList(const std::string& path) {
  formats::for_each_line(
      formats::read_list_file(path), path,
      [&](std::string_view line, std::uint64_t number) { take(line, path, number); });
}

void ExcludeList::take(std::string_view line, const std::string& path, std::uint64_t number) {
  const std::optional<formats::BadSample> sample = formats::BadSample::from_line(line);
  if (!sample) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{}: line {}: no JSON object with a \"key\"; give a list that feedrace "
                            "verify --bad or a quarantine wrote",
                            printable(path), number));
  }
  reasons_.emplace(name_of(formats::base_name(sample->shard), sample->key),
                   sample->reason.empty() ? "listed" : sample->reason);
}

const std::string* ExcludeList::reason(std::string_view shard, std::string_view key) const {
  if (reasons_.empty()) return nullptr;
  const auto found = reasons_.find(name_of(shard, key));
  return found == reasons_.end() ? nullptr : &found->second;
}

std::string ExcludeList::fingerprint() const {
  std::vector<std::string_view> names;
  names.reserve(reasons_.size());
  for (const auto& [name, reason] : reasons_) names.push_back(name);
  std::sort(names.begin(), names.end());
  formats::Fingerprint fingerprint;
  for (const std::string_view name : names) fingerprint.add_bytes(name);
  return fingerprint.text();
}

}  // namespace feedrace::pack
