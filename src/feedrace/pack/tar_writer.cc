// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/tar_writer.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>

#include "feedrace/core/alignment.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/tar_header.h"

namespace feedrace::pack {
namespace {

using formats::kTarBlockBytes;

// Fields of a ustar header: POSIX.1-2017, pax, "ustar Interchange Format".
constexpr std::size_t kNameBytes = 100;
constexpr std::size_t kPrefixBytes = 155;
constexpr std::size_t kPrefixAt = 345;
/// Eleven octal digits.
constexpr std::uint64_t kMaxUstarSize = (std::uint64_t{1} << 33) - 1;
/// 1 January 2000: GNU tar complains of the year 1970.
constexpr std::uint64_t kTime = 946684800;
constexpr std::string_view kPaxName = "././@PaxHeader";
/// A keyword that POSIX defines and asks readers to ignore; of others GNU tar warns.
constexpr std::string_view kFill = "comment";

/// A name in the two fields of ustar.
struct UstarName {
  bool fits = false;
  std::string_view prefix;
  std::string_view name;
};

UstarName split_name(std::string_view name) {
  if (name.size() <= kNameBytes) return {true, {}, name};
  // The last slash that leaves a prefix that fits gives the shortest name.
  const std::size_t slash = name.substr(0, kPrefixBytes + 1).rfind('/');
  if (slash == std::string_view::npos || slash == 0) return {};
  const std::string_view rest = name.substr(slash + 1);
  return {!rest.empty() && rest.size() <= kNameBytes, name.substr(0, slash), rest};
}

bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

/// Bytes of "LENGTH KEY=VALUE\n", where the length counts its own digits.
std::uint64_t record_bytes(std::uint64_t key_bytes, std::uint64_t value_bytes) {
  const std::uint64_t bare = key_bytes + value_bytes + 3;
  std::uint64_t length = bare + 1;
  while (length != bare + fmt::formatted_size("{}", length)) {
    length = bare + fmt::formatted_size("{}", length);
  }
  return length;
}

std::string record(std::string_view key, std::string_view value) {
  return fmt::format("{} {}={}\n", record_bytes(key.size(), value.size()), key, value);
}

/// A record of `bytes` bytes that says nothing; at least one block.
std::string fill_record(std::uint64_t bytes) {
  const std::string head = fmt::format("{} {}=", bytes, kFill);
  assert(bytes > head.size());
  return head + std::string(static_cast<std::size_t>(bytes) - head.size() - 1, ' ') + "\n";
}

/// What a member needs in front of its ustar header.
struct Extension {
  std::string records;
  std::uint64_t padded_bytes = 0;  ///< Of the records, in whole blocks; 0: no pax header at all.
};

/// What ustar can't hold. Names that are not UTF-8 stay raw where they fit, as every tar on Linux
/// has them; pax holds them only with a note on their character set, of which GNU tar warns.
std::string needed_records(std::string_view name, std::uint64_t size_bytes) {
  std::string records;
  const bool fits = split_name(name).fits;
  if (!is_utf8(name)) {
    if (!fits) records += record("hdrcharset", "BINARY") + record("path", name);
  } else if (!fits || !is_ascii(name)) {
    records += record("path", name);
  }
  if (size_bytes > kMaxUstarSize) records += record("size", fmt::format("{}", size_bytes));
  return records;
}

Extension extension_of(std::uint64_t offset_bytes, std::string_view name, std::uint64_t size_bytes,
                       bool is_aligned) {
  Extension extension{needed_records(name, size_bytes), 0};
  extension.padded_bytes = round_up(extension.records.size(), kTarBlockBytes);
  if (!is_aligned || size_bytes < kLeastAlignedBytes) return extension;
  const std::uint64_t plain_end = offset_bytes + kTarBlockBytes;
  if (extension.records.empty() && plain_end % kPayloadAlignmentBytes == 0) return extension;
  const std::uint64_t least = std::max<std::uint64_t>(extension.padded_bytes, kTarBlockBytes);
  const std::uint64_t end = plain_end + kTarBlockBytes + least;
  extension.padded_bytes = least + round_up(end, kPayloadAlignmentBytes) - end;
  return extension;
}

void put_octal(std::string& block, std::size_t at, std::size_t digits, std::uint64_t value) {
  block.replace(at, digits, fmt::format("{:0{}o}", value, digits));
}

std::string header_block(const UstarName& name, char type, std::uint64_t size_bytes) {
  constexpr std::size_t kChecksumAt = 148;
  std::string block(kTarBlockBytes, '\0');
  block.replace(0, name.name.size(), name.name);
  put_octal(block, 100, 7, 0644);  // Mode.
  put_octal(block, 108, 7, 0);     // Owner.
  put_octal(block, 116, 7, 0);     // Group.
  put_octal(block, 124, 11, size_bytes);
  put_octal(block, 136, 11, kTime);
  block[156] = type;
  block.replace(257, 5, "ustar");
  block.replace(263, 2, "00");
  block.replace(kPrefixAt, name.prefix.size(), name.prefix);
  block.replace(kChecksumAt, 8, "        ");
  const std::uint64_t sum = std::accumulate(
      block.begin(), block.end(), std::uint64_t{0},
      [](std::uint64_t total, char c) { return total + static_cast<unsigned char>(c); });
  put_octal(block, kChecksumAt, 6, sum);
  block[kChecksumAt + 6] = '\0';
  return block;
}

/// For readers without pax: the end of a name that does not fit is worth more than its folders.
UstarName shortened(std::string_view name) {
  const UstarName split = split_name(name);
  if (split.fits) return split;
  return {true, {}, name.substr(name.size() - std::min(name.size(), kNameBytes))};
}

}  // namespace

std::string tar_member_head(std::uint64_t offset_bytes, std::string_view name,
                            std::uint64_t size_bytes, bool is_aligned) {
  Extension extension = extension_of(offset_bytes, name, size_bytes, is_aligned);
  std::string head;
  if (extension.padded_bytes != 0) {
    const std::uint64_t room = extension.padded_bytes - extension.records.size();
    if (room >= kTarBlockBytes) extension.records += fill_record(room);
    head = header_block({true, {}, kPaxName}, 'x', extension.records.size());
    head += extension.records;
    head.resize(static_cast<std::size_t>(kTarBlockBytes + extension.padded_bytes), '\0');
  }
  // pax gives the size where the field can't.
  head += header_block(shortened(name), '0', size_bytes > kMaxUstarSize ? 0 : size_bytes);
  return head;
}

std::uint64_t tar_head_bytes(std::uint64_t offset_bytes, std::string_view name,
                             std::uint64_t size_bytes, bool is_aligned) {
  const std::uint64_t padded =
      extension_of(offset_bytes, name, size_bytes, is_aligned).padded_bytes;
  return kTarBlockBytes + (padded == 0 ? 0 : kTarBlockBytes + padded);
}

std::uint64_t tar_padding_bytes(std::uint64_t size_bytes) noexcept {
  return round_up(size_bytes, kTarBlockBytes) - size_bytes;
}

std::uint64_t tar_end_bytes(std::uint64_t offset_bytes, bool is_aligned) noexcept {
  const std::uint64_t end = offset_bytes + 2 * kTarBlockBytes;
  return (is_aligned ? round_up(end, kPayloadAlignmentBytes) : end) - offset_bytes;
}

}  // namespace feedrace::pack
