// SPDX-License-Identifier: Apache-2.0
// Any text as a saved state. Where only the checksum is wrong, it is set right, so that what goes
// on from a state meets hostile values too.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "feedrace/order/state.h"

namespace {

using namespace feedrace::order;

void check(bool holds) {
  if (!holds) std::abort();
}

void check_line(const std::string& message) {
  check(!message.empty() && message.find('\n') == std::string::npos);
}

/// The state of a text but for its checksum, which the failure names.
feedrace::Result<State> parse_repaired(std::string_view text) {
  auto state = parse_state(text);
  if (state) return state;
  check_line(state.error().message);
  constexpr std::string_view kBefore = "its members give ";
  const std::size_t at = state.error().message.find(kBefore);
  if (at == std::string::npos) return state;
  auto root = nlohmann::json::parse(text);
  root["checksum"] = state.error().message.substr(at + kBefore.size(), 16);
  return parse_state(root.dump());
}

void check_lines(const StateDifferences& found) {
  for (const std::string& error : found.errors) check_line(error);
  for (const std::string& note : found.notes) check_line(note);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto state = parse_repaired({reinterpret_cast<const char*>(data), size});
  if (!state) return 0;
  const auto again = parse_state(to_json(*state));
  check(again && *again == *state);
  State other;
  other.sets.emplace_back();
  check_lines(compare(*state, *state, false));
  check_lines(compare(*state, other, true));
  check_lines(compare(other, *state, false));
  return 0;
}
