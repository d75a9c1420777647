// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/size_text.h"

#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::tools {
namespace {

constexpr std::string_view kPrefixes = "kmgtpe";

/// Of "", "b", "k", "kb", "ki", "kib" and those of larger ones, in lower case; 0: no unit.
double bytes_of_unit(std::string_view unit, SizePrefix prefix) {
  if (unit.empty() || unit == "b") return 1;
  const std::size_t power = kPrefixes.find(unit.front());
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = unit.substr(1);
  const bool is_plain = rest.empty() || rest == "b";
  const bool is_binary = rest == "i" || rest == "ib";
  if (!is_plain && !is_binary) return 0;
  const double base = is_binary || prefix == SizePrefix::kBinary ? 1024 : 1000;
  return std::pow(base, static_cast<double>(power + 1));
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text, SizePrefix prefix) {
  const auto refuse = [&](const char* why) {
    return Failure{
        ErrorCode::kInvalidArgument,
        fmt::format("{} {}; give a size such as 512MB, 1.5GB or 64MiB", printable(text), why)};
  };
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  double number = 0;
  const auto [stop, error] = std::from_chars(begin, end, number, std::chars_format::fixed);
  const bool is_number = error == std::errc() && std::isfinite(number);
  if (text.starts_with('-')) return refuse("is negative");
  if (!is_number) return refuse("is no size");
  std::string unit;
  for (const char* at = stop; at != end; ++at) {
    if (*at == ' ' && unit.empty()) continue;
    unit += *at >= 'A' && *at <= 'Z' ? static_cast<char>(*at - 'A' + 'a') : *at;
  }
  const double factor = bytes_of_unit(unit, prefix);
  if (factor == 0) return refuse("is no size");
  constexpr double kMost = 9.2e18;  // Below 2^63, so that sums of two fit.
  if (number * factor > kMost) return refuse("is more than any machine has");
  // Whole numbers of bytes are exact, beyond what a double counts one by one.
  std::uint64_t whole = 0;
  const auto as_whole = std::from_chars(begin, stop, whole);
  if (as_whole.ec == std::errc() && as_whole.ptr == stop) {
    return whole * static_cast<std::uint64_t>(factor);
  }
  return static_cast<std::uint64_t>(std::llround(number * factor));
}

CLI::Validator size_value(SizePrefix prefix) {
  const auto convert = [prefix](std::string& text) {
    const Result<std::uint64_t> bytes = parse_size(text, prefix);
    if (!bytes) return bytes.error().message;
    text = std::to_string(*bytes);
    return std::string();
  };
  return {convert, "SIZE"};
}

}  // namespace feedrace::tools
