// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/tar_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::formats {
namespace {

// Places of the fields: POSIX.1-2017, pax, "ustar Interchange Format".
constexpr std::size_t kNameBytes = 100;
constexpr std::size_t kSizeAt = 124;
constexpr std::size_t kSizeBytes = 12;
constexpr std::size_t kChecksumAt = 148;
constexpr std::size_t kChecksumBytes = 8;
constexpr std::size_t kTypeAt = 156;
constexpr std::size_t kMagicAt = 257;
constexpr std::size_t kPrefixAt = 345;
constexpr std::size_t kPrefixBytes = 155;

/// A text field ends at its first NUL, or fills all its bytes.
std::string_view text_field(std::string_view block, std::size_t at, std::size_t bytes) noexcept {
  const std::string_view field = block.substr(at, bytes);
  return field.substr(0, field.find('\0'));
}

std::optional<std::uint64_t> parse_base256(std::string_view field) noexcept {
  if ((static_cast<unsigned char>(field[0]) & 0x40) != 0) return std::nullopt;  // Negative.
  std::uint64_t value = static_cast<unsigned char>(field[0]) & 0x3f;
  for (const char c : field.substr(1)) {
    if (value >> 55 != 0) return std::nullopt;
    value = value << 8 | static_cast<unsigned char>(c);
  }
  return value;
}

}  // namespace

std::optional<std::uint64_t> parse_tar_number(std::string_view field) noexcept {
  if (field.empty()) return std::nullopt;
  if ((static_cast<unsigned char>(field[0]) & 0x80) != 0) return parse_base256(field);
  std::size_t at = 0;
  while (at < field.size() && field[at] == ' ') ++at;
  std::uint64_t value = 0;
  // Twelve octal digits are 36 bits: no overflow.
  for (; at < field.size() && field[at] >= '0' && field[at] <= '7'; ++at) {
    value = value << 3 | static_cast<std::uint64_t>(field[at] - '0');
  }
  // Behind the first terminator old tars left whatever was in memory.
  if (at < field.size() && field[at] != ' ' && field[at] != '\0') return std::nullopt;
  return value;
}

bool is_zero_block(std::string_view block) noexcept {
  static constexpr std::array<char, kTarBlockBytes> kZeros{};
  return std::memcmp(block.data(), kZeros.data(), kTarBlockBytes) == 0;
}

bool tar_checksum_matches(std::string_view block) noexcept {
  const auto stored = parse_tar_number(block.substr(kChecksumAt, kChecksumBytes));
  if (!stored) return false;
  std::uint32_t sum = 0;
  std::uint32_t high_count = 0;
  for (const char c : block.substr(0, kTarBlockBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    sum += byte;
    high_count += byte >> 7;
  }
  // The checksum is taken with its own field blank.
  for (const char c : block.substr(kChecksumAt, kChecksumBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    sum -= byte;
    high_count -= byte >> 7;
  }
  sum += ' ' * std::uint32_t{kChecksumBytes};
  // A signed byte is 256 less where its top bit is set.
  return *stored == sum ||
         std::int64_t{sum} - 256 * std::int64_t{high_count} == static_cast<std::int64_t>(*stored);
}

TarHeader parse_tar_header(std::string_view block) noexcept {
  TarHeader header;
  header.name = text_field(block, 0, kNameBytes);
  header.type = block[kTypeAt];
  header.size_field = block.substr(kSizeAt, kSizeBytes);
  // GNU's own magic is "ustar  \0": it keeps other things where POSIX has the prefix.
  if (block.substr(kMagicAt, 6) == std::string_view("ustar\0", 6)) {
    header.prefix = text_field(block, kPrefixAt, kPrefixBytes);
  }
  return header;
}

Result<void> PaxRecords::parse(std::string_view records) {
  const auto bad = [](std::string_view what, std::string_view record) {
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("pax record '{}' {}", printable(record.substr(0, 40)), what)};
  };
  while (!records.empty() && records[0] != '\0') {  // Some writers pad the last block with NULs.
    std::size_t length = 0;
    const char* end = records.data() + records.size();
    // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): `end` bounds it.
    const auto [stop, error] = std::from_chars(records.data(), end, length);
    if (error != std::errc() || stop == end || *stop != ' ') return bad("has no length", records);
    const auto digits = static_cast<std::size_t>(stop - records.data());
    if (length < digits + 3 || length > records.size() || records[length - 1] != '\n') {
      return bad("has a length that does not fit", records);
    }
    const std::string_view body = records.substr(digits + 1, length - digits - 2);
    const std::size_t equals = body.find('=');
    if (equals == std::string_view::npos) return bad("has no '='", records);
    const std::string_view key = body.substr(0, equals);
    const std::string_view value = body.substr(equals + 1);
    if (key == "path") {
      path = value.substr(0, value.find('\0'));
    } else if (key == "size") {
      std::uint64_t number = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
      if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) {
        return bad("has a size that is no number", records);
      }
      size = number;
    } else if (key.starts_with("GNU.sparse.")) {
      sparse = true;
    }
    records.remove_prefix(length);
  }
  return {};
}

std::string_view compression_of(std::string_view head) noexcept {
  using namespace std::string_view_literals;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kMagic = {{
      {"\x1f\x8b"sv, "gzip"},
      {"\x28\xb5\x2f\xfd"sv, "zstd"},
      {"\xfd"
       "7zXZ\0"sv,
       "xz"},
      {"BZh"sv, "bzip2"},
      {"\x04\x22\x4d\x18"sv, "lz4"},
      {"PK\x03\x04"sv, "zip"},
      {"7z\xbc\xaf\x27\x1c"sv, "7z"},
  }};
  for (const auto& [magic, name] : kMagic) {
    if (head.starts_with(magic)) return name;
  }
  return {};
}

}  // namespace feedrace::formats
