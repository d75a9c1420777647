// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/subset.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/parallel.h"

namespace feedrace::pipeline {
namespace {

using formats::canonical_key;
using order::Selection;

// Samples that a thread looks at in one go; whole words of a mask.
constexpr std::uint64_t kBlock = 64 << 10;
constexpr std::uint64_t kNone = ~std::uint64_t{0};

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, "subset: " + message);
}

void check(const Subset& subset) {
  if (subset.indices && subset.keys) {
    refuse(
        "indices and keys are both given; each says which samples come in which order: give one");
  }
  if (!subset.share) return;
  const auto [begin, end] = *subset.share;
  if (begin >= 0 && begin < end && end <= 1) return;
  refuse(fmt::format("the share is [{}, {}); it must be a part of [0, 1) that is not empty", begin,
                     end));
}

bool has_key_condition(const Subset& subset) {
  return !subset.key_pattern.empty() || subset.key_filter || subset.share;
}

/// True for a key that matches, with its suffix or without: users see both.
bool matches_pattern(const std::string& pattern, const std::string& key) {
  return fnmatch(pattern.c_str(), std::string(canonical_key(key)).c_str(), 0) == 0 ||
         fnmatch(pattern.c_str(), key.c_str(), 0) == 0;
}

/// True for the samples that all conditions but the lists hold for.
bool matches(const Subset& subset, const std::string& key) {
  const std::string_view name = canonical_key(key);
  if (subset.share) {
    const double place = share_place(name, subset.share_salt);
    if (place < subset.share->begin || place >= subset.share->end) return false;
  }
  if (!subset.key_pattern.empty() && !matches_pattern(subset.key_pattern, key)) return false;
  return !subset.key_filter || subset.key_filter(name);
}

std::vector<std::uint64_t> matching_bits(const formats::Dataset& dataset, const Subset& subset) {
  const std::uint64_t count = dataset.size();
  std::vector<std::uint64_t> bits(static_cast<std::size_t>((count + 63) / 64));
  const auto blocks = static_cast<std::size_t>((count + kBlock - 1) / kBlock);
  const std::size_t threads = subset.key_filter ? 1 : usable_cores();
  formats::parallel_for(blocks, threads, [&](std::size_t block) {
    const std::uint64_t end = std::min(count, (block + 1) * kBlock);
    for (std::uint64_t i = block * kBlock; i < end; ++i) {
      if (matches(subset, dataset.key(i))) bits[i / 64] |= std::uint64_t{1} << i % 64;
    }
  });
  return bits;
}

std::vector<std::uint64_t> samples_of_indices(const formats::Dataset& dataset,
                                              const std::vector<std::uint64_t>& indices) {
  const auto is_unknown = [&](std::uint64_t index) { return index >= dataset.size(); };
  const auto first = std::find_if(indices.begin(), indices.end(), is_unknown);
  if (first == indices.end()) return indices;
  const auto more = std::count_if(first + 1, indices.end(), is_unknown);
  refuse(
      fmt::format("index {} is not in the data set, which has the samples 0 to {}{}; take it "
                  "out of the list",
                  *first, dataset.size() - 1,
                  more > 0 ? fmt::format(" (nor are {} more of the list)", more) : ""));
}

/// Sample numbers of keys, in the order of the list.
std::vector<std::uint64_t> samples_of_keys(const formats::Dataset& dataset,
                                           const std::vector<std::string>& keys) {
  std::unordered_map<std::string_view, std::uint64_t> wanted;
  wanted.reserve(keys.size());
  for (const std::string& key : keys) wanted.emplace(canonical_key(key), kNone);
  for (std::uint64_t i = 0; i < dataset.size(); ++i) {
    const std::string key = dataset.key(i);
    const auto found = wanted.find(canonical_key(key));
    if (found == wanted.end()) continue;
    if (found->second != kNone) {
      refuse(fmt::format("key {} is that of {} and of {}; name samples by indices instead",
                         printable(found->first), dataset.where(found->second), dataset.where(i)));
    }
    found->second = i;
  }
  std::vector<std::uint64_t> samples;
  samples.reserve(keys.size());
  std::uint64_t unknown = 0;
  const std::string* example = nullptr;
  for (const std::string& key : keys) {
    const std::uint64_t sample = wanted.at(canonical_key(key));
    if (sample == kNone && unknown++ == 0) example = &key;
    samples.push_back(sample);
  }
  if (unknown == 0) return samples;
  refuse(
      fmt::format("key {} is not in the data set, whose keys are like {}{}; take it out of the "
                  "list",
                  printable(*example), printable(canonical_key(dataset.key(0))),
                  unknown > 1 ? fmt::format(" (nor are {} more of the list)", unknown - 1) : ""));
}

std::string describe(const Subset& subset, const Selection& selection, std::uint64_t count) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (subset.indices) add("a list of indices");
  if (subset.keys) add("a list of keys");
  if (!subset.key_pattern.empty()) add("keys like " + printable(subset.key_pattern));
  if (subset.key_filter) {
    add(subset.key_filter_name.empty() ? "keys by a filter"
                                       : "keys by " + printable(subset.key_filter_name));
  }
  if (subset.share) {
    add(fmt::format("share {} to {} by hash, salt {}", subset.share->begin, subset.share->end,
                    subset.share_salt));
  }
  return fmt::format("{}: {} of {} samples, digest {}", text, selection.size(), count,
                     selection.digest());
}

}  // namespace

double share_place(std::string_view key, std::uint64_t salt) noexcept {
  constexpr double kScale = 0x1.0p-53;
  return static_cast<double>(XXH3_64bits_withSeed(key.data(), key.size(), salt) >> 11) * kScale;
}

ChosenSubset choose_subset(const formats::Dataset& dataset, const Subset& subset) {
  check(subset);
  ChosenSubset chosen;
  const bool is_list = subset.indices || subset.keys;
  if (!is_list && !has_key_condition(subset)) {
    chosen.selection = Selection::all(dataset.size());
    chosen.text = "all";
    return chosen;
  }
  if (is_list) {
    std::vector<std::uint64_t> samples = subset.indices
                                             ? samples_of_indices(dataset, *subset.indices)
                                             : samples_of_keys(dataset, *subset.keys);
    if (has_key_condition(subset)) {
      std::erase_if(samples, [&](std::uint64_t i) { return !matches(subset, dataset.key(i)); });
    }
    chosen.selection = Selection::list(std::move(samples));
  } else {
    chosen.selection = Selection::mask(matching_bits(dataset, subset));
  }
  chosen.text = describe(subset, chosen.selection, dataset.size());
  if (chosen.selection.size() > 0) return chosen;
  refuse(fmt::format(
      "none of {} samples is left ({}); keys are like {}, indices from 0 to {}; widen key_pattern, "
      "key_filter or share, or give a list of keys or a range of indices",
      with_commas(dataset.size()), chosen.text, printable(dataset.key(0)), dataset.size() - 1));
}

}  // namespace feedrace::pipeline
