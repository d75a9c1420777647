// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <fmt/format.h>

namespace feedrace::verdict {

/// "9,400": two digits count, as no forecast is better.
std::string rounded(double rate);

inline std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

/// "2 decode threads", "1 decode thread".
inline std::string counted(std::size_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace feedrace::verdict
