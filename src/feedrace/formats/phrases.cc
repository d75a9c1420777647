// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/phrases.h"

#include <algorithm>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::formats {

std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", with_commas(count), noun, count == 1 ? "" : "s");
}

std::string listed(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (i == 0 ? "" : ", ") + printable(names[i]);
  }
  return names.size() > most ? text + ", ..." : text;
}

}  // namespace feedrace::formats
