// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <system_error>

#include <fmt/format.h>

namespace feedrace {
namespace {

/// Length of the well-formed UTF-8 sequence at the start of `s`, 0 if there is none.
std::size_t utf8_length(std::string_view s) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const auto continued = [&](std::size_t count) {
    if (s.size() <= count) return false;
    for (std::size_t i = 1; i <= count; ++i) {
      if ((byte(i) & 0xc0) != 0x80) return false;
    }
    return true;
  };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continued(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    if (!continued(2)) return 0;
    const bool overlong = lead == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = lead == 0xed && byte(1) > 0x9f;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    if (!continued(3)) return 0;
    const bool overlong = lead == 0xf0 && byte(1) < 0x90;
    const bool too_large = lead == 0xf4 && byte(1) > 0x8f;
    return overlong || too_large ? 0 : 4;
  }
  return 0;
}

}  // namespace

std::string shell_word(std::string_view raw) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:+=@%";
  if (!raw.empty() && raw.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(raw);
  }
  std::string word = "'";
  for (const char c : printable(raw)) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string printable(std::string_view raw) {
  constexpr std::size_t kMostBytes = 4096;
  const std::size_t size = raw.size();
  std::string out;
  out.reserve(std::min(size, kMostBytes));
  while (!raw.empty()) {
    if (size - raw.size() >= kMostBytes) return out + fmt::format("... ({} bytes)", size);
    const std::size_t length = utf8_length(raw);
    const auto first = static_cast<unsigned char>(raw[0]);
    if (length == 0 || first < 0x20 || first == 0x7f) {
      out += fmt::format("\\x{:02x}", first);
      raw.remove_prefix(1);
      continue;
    }
    if (first == '\\') out += '\\';
    out += raw.substr(0, length);
    raw.remove_prefix(length);
  }
  return out;
}

bool is_utf8(std::string_view raw) noexcept {
  while (!raw.empty()) {
    const std::size_t length = utf8_length(raw);
    if (length == 0) return false;
    raw.remove_prefix(length);
  }
  return true;
}

std::string hex_of(std::string_view bytes) {
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string with_commas(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string errno_text(std::string_view call, int error_number) {
  return fmt::format("{}: {}", call, std::generic_category().message(error_number));
}

}  // namespace feedrace
