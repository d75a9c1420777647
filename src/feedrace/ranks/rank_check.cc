// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ranks/rank_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/ranks/rank_folder.h"

namespace feedrace::ranks {
namespace {

using nlohmann::json;

constexpr std::size_t kRanksNamed = 3;
constexpr std::size_t kFactsNamed = 3;

struct RankText {
  std::uint64_t rank = 0;
  std::size_t place = 0;  ///< Among the texts.
  RankFacts facts;        ///< With the world's size and the occasion in front.
};

std::string to_text(const World& world, const std::string& occasion, const RankFacts& facts) {
  json pairs = json::array();
  for (const auto& [name, value] : facts) {
    pairs.push_back(json::array({text_to_json(name), text_to_json(value)}));
  }
  return json{{"rank", world.rank},
              {"world_size", world.size},
              {"occasion", text_to_json(occasion)},
              {"facts", std::move(pairs)}}
      .dump();
}

std::optional<RankText> from_text(const std::string& text) {
  try {
    const json root = parse_shallow_json(text);
    RankText out;
    out.rank = root.at("rank").get<std::uint64_t>();
    out.facts.emplace_back("world_size",
                           std::to_string(root.at("world_size").get<std::uint64_t>()));
    out.facts.emplace_back("the check", text_from_json(root.at("occasion")).value());
    for (const json& pair : root.at("facts")) {
      out.facts.emplace_back(text_from_json(pair.at(0)).value(),
                             text_from_json(pair.at(1)).value());
    }
    return out;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what);
}

/// Texts come by rank; each must say that it is of that rank. Empty ones are of ranks that have not
/// come to a folder, which is so only where the sizes of the world differ.
std::vector<RankText> read_texts(const std::vector<std::string>& texts, bool is_folder) {
  const std::size_t size = texts.size();
  std::vector<RankText> ranks;
  std::vector<bool> is_taken(size);
  for (std::size_t place = 0; place < size; ++place) {
    if (is_folder && texts[place].empty()) continue;
    std::optional<RankText> rank = from_text(texts[place]);
    if (!rank) {
      refuse(
          fmt::format("rank check: the text of rank {} is none that a rank gave; all_gather must "
                      "give texts as they are, and all ranks run the same Feedrace",
                      place));
    }
    if (rank->rank < size && is_taken[rank->rank]) {
      refuse(
          fmt::format("rank check: two processes say that they are rank {}; give each its own "
                      "rank",
                      rank->rank));
    }
    if (rank->rank < size) is_taken[rank->rank] = true;
    rank->place = place;
    ranks.push_back(*std::move(rank));
  }
  for (const RankText& rank : ranks) {
    if (rank.rank == rank.place) continue;
    refuse(
        fmt::format("rank check: text {} of all_gather is of rank {}; it must give texts by rank, "
                    "with the ranks that the loaders were given",
                    rank.place, rank.rank));
  }
  return ranks;
}

std::optional<std::string> value_of(const RankFacts& facts, const std::string& name) {
  const auto found = std::find_if(facts.begin(), facts.end(),
                                  [&](const auto& fact) { return fact.first == name; });
  return found == facts.end() ? std::nullopt : std::optional(found->second);
}

std::string value_phrase(const std::optional<std::string>& value) {
  return value ? printable(*value) : std::string("absent");
}

bool differs(const RankText& a, const RankText& b, const std::string& name) {
  return value_of(a.facts, name) != value_of(b.facts, name);
}

/// Facts that are not the same everywhere, in rank 0's order; those that it has not, at the end.
std::vector<std::string> differing_facts(const std::vector<RankText>& ranks) {
  std::vector<std::string> names;
  for (const RankText& rank : ranks) {
    if (rank.facts == ranks[0].facts && rank.rank != 0) continue;
    for (const auto& [name, value] : rank.facts) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::erase_if(names, [&](const std::string& name) {
    return std::none_of(ranks.begin(), ranks.end(),
                        [&](const RankText& rank) { return differs(rank, ranks[0], name); });
  });
  return names;
}

/// "seed is 7 on rank 0, 8 on rank 3 and 9 on rank 4"; the number of ranks left out.
std::pair<std::string, std::size_t> fact_phrase(const std::vector<RankText>& ranks,
                                                const std::string& name) {
  std::vector<std::string> others;
  std::size_t more = 0;
  for (const RankText& rank : ranks) {
    if (!differs(rank, ranks[0], name)) continue;
    if (others.size() == kRanksNamed) {
      ++more;
      continue;
    }
    others.push_back(
        fmt::format("{} on rank {}", value_phrase(value_of(rank.facts, name)), rank.rank));
  }
  const std::string last = others.back();
  others.pop_back();
  std::string text = fmt::format("{} is {} on rank 0", printable(name),
                                 value_phrase(value_of(ranks[0].facts, name)));
  for (const std::string& other : others) text += ", " + other;
  return {text + " and " + last, more};
}

std::string more_phrase(std::size_t more_ranks, const std::vector<std::string>& names) {
  std::vector<std::string> clauses;
  if (more_ranks > 0) {
    clauses.push_back(fmt::format("{} more rank{}", more_ranks, more_ranks == 1 ? "" : "s"));
  }
  if (names.size() > 1) {
    std::vector<std::string> listed;
    for (std::size_t i = 1; i < std::min(names.size(), 1 + kFactsNamed); ++i) {
      listed.push_back(printable(names[i]));
    }
    if (names.size() > 1 + kFactsNamed) listed.emplace_back("...");
    clauses.push_back(fmt::format("{} more fact{}: {}", names.size() - 1,
                                  names.size() == 2 ? "" : "s", fmt::join(listed, ", ")));
  }
  return clauses.empty() ? "" : fmt::format(" (and {})", fmt::join(clauses, ", and "));
}

void compare_ranks(const std::vector<RankText>& ranks) {
  const std::vector<std::string> names = differing_facts(ranks);
  if (names.empty()) return;
  const auto [phrase, more_ranks] = fact_phrase(ranks, names.front());
  refuse(fmt::format("ranks differ: {}{}; start all ranks with the same settings and data", phrase,
                     more_phrase(more_ranks, names)));
}

void check_arguments(const RankCheck& check) {
  const bool has_folder = !check.folder.empty();
  const bool has_call = static_cast<bool>(check.all_gather);
  if (has_folder == has_call) {
    refuse(fmt::format("rank check: {} a folder {} all_gather given; give one of the two",
                       has_folder ? "both" : "neither", has_folder ? "and" : "nor"));
  }
  if (!(check.timeout_seconds > 0)) {
    refuse(fmt::format("rank check: timeout_seconds is {}; give a time above 0",
                       check.timeout_seconds));
  }
}

std::vector<std::string> gather(const RankCheck& check, const World& world,
                                const std::string& text) {
  std::vector<std::string> texts = check.all_gather(text);
  if (texts.size() == world.size) return texts;
  refuse(
      fmt::format("rank check: all_gather gave {} texts for {} ranks; it must give every rank's "
                  "text, by rank",
                  texts.size(), world.size));
}

}  // namespace

void check_ranks(const RankCheck& check, const World& world, const std::string& occasion,
                 const RankFacts& facts) {
  if (world.size <= 1) return;
  check_arguments(check);
  const std::string text = to_text(world, occasion, facts);
  const bool is_folder = !check.all_gather;
  const std::vector<std::string> texts =
      is_folder ? exchange_in_folder(check, world, occasion, text) : gather(check, world, text);
  compare_ranks(read_texts(texts, is_folder));
}

}  // namespace feedrace::ranks
