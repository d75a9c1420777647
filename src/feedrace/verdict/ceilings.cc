// SPDX-License-Identifier: Apache-2.0
#include "feedrace/verdict/ceilings.h"

#include <cmath>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/json_text.h"
#include "feedrace/error.h"

namespace feedrace::verdict {
namespace {

/// Nothing where the part was not measured, which has null there.
std::optional<double> rate_of(const nlohmann::json& ceilings, const char* part) {
  const auto found = ceilings.find(part);
  if (found == ceilings.end() || !found->is_object()) return std::nullopt;
  const auto rate = found->find("images_per_second");
  if (rate == found->end() || rate->is_null()) return std::nullopt;
  const double value = rate->is_number() ? rate->get<double>() : 0;
  if (std::isfinite(value) && value > 0) return value;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("ceilings: images_per_second of {:?} is {}, no rate; measure again with "
                          "feedrace bench ceilings PATH --json",
                          part, printable(rate->dump())));
}

}  // namespace

MeasuredCeilings parse_ceilings(std::string_view text) {
  const nlohmann::json json = parse_shallow_json(text);
  if (!json.is_object() || !json.contains("ceilings") || !json["ceilings"].is_object()) {
    throw Error(ErrorCode::kInvalidArgument,
                "ceilings: not what feedrace bench ceilings PATH --json writes; give its file");
  }
  const nlohmann::json& ceilings = json["ceilings"];
  return {rate_of(ceilings, "storage"), rate_of(ceilings, "packed"),
          rate_of(ceilings, "decode"),  rate_of(ceilings, "decode_indexed"),
          rate_of(ceilings, "loader"),  rate_of(ceilings, "consumer")};
}

}  // namespace feedrace::verdict
