// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/report_parts.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/view/html.h"

namespace feedrace::view {

double number_of(const nlohmann::ordered_json& value, const char* name) {
  const auto found = value.find(name);
  return found != value.end() && found->is_number() ? found->get<double>() : 0;
}

std::string count_text(double value) {
  return with_commas(static_cast<std::uint64_t>(std::max(0.0, value) + 0.5));
}

std::string card(const std::string& title, const std::string& body) {
  return fmt::format("<section class=\"card\"><h2>{}</h2>{}</section>\n", escaped(title), body);
}

}  // namespace feedrace::view
