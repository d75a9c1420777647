// SPDX-License-Identifier: Apache-2.0
#include "feedrace/verdict/wording.h"

#include <cmath>
#include <cstdint>

#include "feedrace/core/text.h"

namespace feedrace::verdict {

std::string rounded(double rate) {
  if (!(rate >= 0.05)) return "0";
  const double unit = std::pow(10.0, std::floor(std::log10(rate)) - 1);
  if (unit < 1) return fmt::format("{:.2g}", rate);
  return with_commas(static_cast<std::uint64_t>(std::round(rate / unit) * unit));
}

}  // namespace feedrace::verdict
