// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/text.h"
#include "feedrace/verdict.h"
#include "feedrace/verdict/wording.h"

namespace feedrace {
namespace {

std::string text_of(const Ceiling& ceiling) {
  return fmt::format("{} alone could give {}{} images/s", ceiling.part,
                     ceiling.is_at_least ? "at least " : "",
                     verdict::rounded(ceiling.images_per_second));
}

std::string text_of(const Remedy& remedy) {
  std::string text = remedy.action;
  if (remedy.images_per_second) {
    text += fmt::format(" would give about {}", verdict::rounded(*remedy.images_per_second));
  }
  if (!remedy.command.empty()) text += fmt::format(" ({})", remedy.command);
  return text;
}

}  // namespace

const char* to_string(Limit limit) noexcept {
  constexpr std::array<const char*, kLimitCount> kNames = {
      "nothing_yet", "too_short",       "consumer",       "batch_overhead", "cold_start",
      "decode",      "gpu_stage",       "oversubscribed", "neighbour",      "steal",
      "cpu_quota",   "memory_pressure", "swap",           "memory_copies",  "slow_samples",
      "storage",     "small_files",     "shared_device",  "gpu_topology",   "bad_samples"};
  return kNames[static_cast<std::size_t>(limit)];
}

std::string Verdict::to_text() const {
  std::string text = headline;
  for (std::size_t i = 0; i < evidence.size(); ++i) text += (i == 0 ? ": " : ", ") + evidence[i];
  for (const Ceiling& ceiling : ceilings) text += "; " + text_of(ceiling);
  for (const Remedy& remedy : remedies) text += "; " + text_of(remedy);
  for (const std::string& note : notes) text += "; " + note;
  return text;
}

std::string Verdict::to_json() const {
  nlohmann::ordered_json ceiling_list = nlohmann::ordered_json::array();
  for (const Ceiling& ceiling : ceilings) {
    ceiling_list.push_back({{"part", ceiling.part},
                            {"images_per_second", ceiling.images_per_second},
                            {"is_measured", ceiling.is_measured},
                            {"is_at_least", ceiling.is_at_least}});
  }
  nlohmann::ordered_json remedy_list = nlohmann::ordered_json::array();
  for (const Remedy& remedy : remedies) {
    nlohmann::ordered_json one = {{"action", remedy.action},
                                  {"command", printable(remedy.command)}};
    one["images_per_second"] = nullptr;
    if (remedy.images_per_second) one["images_per_second"] = *remedy.images_per_second;
    remedy_list.push_back(std::move(one));
  }
  const nlohmann::ordered_json json = {
      {"limit", to_string(limit)}, {"text", printable(to_text())},
      {"headline", headline},      {"images_per_second", images_per_second},
      {"evidence", evidence},      {"ceilings", ceiling_list},
      {"remedies", remedy_list},   {"notes", notes}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace feedrace
