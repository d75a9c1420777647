// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/key_list.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/list_lines.h"
#include "feedrace/formats/npy.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::formats {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

[[noreturn]] void refuse(const std::string& path, std::string_view found) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", printable(path), found));
}

template <typename T>
std::vector<std::uint64_t> read_values(const Fd& fd, const std::string& path,
                                       std::string_view type) {
  const Result<NpyMap> map = NpyMap::map(fd.get(), path, type);
  if (!map) raise(map.error());
  std::vector<std::uint64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(map->count()));
  for (const T value : map->values<T>()) {
    if (value < T{0}) {
      refuse(path, fmt::format("entry {} is {}; sample numbers begin at 0", numbers.size(), value));
    }
    numbers.push_back(static_cast<std::uint64_t>(value));
  }
  return numbers;
}

std::vector<std::uint64_t> read_npy(const Fd& fd, const std::string& path) {
  const Result<std::string> type = npy_type_of(fd.get(), path);
  if (!type) raise(type.error());
  if (*type == "<u8") return read_values<std::uint64_t>(fd, path, *type);
  if (*type == "<i8") return read_values<std::int64_t>(fd, path, *type);
  if (*type == "<u4") return read_values<std::uint32_t>(fd, path, *type);
  if (*type == "<i4") return read_values<std::int32_t>(fd, path, *type);
  refuse(path, fmt::format("holds values of type {}; save sample numbers as int64 (NumPy: "
                           "numbers.astype('<i8'); of a mask: mask.nonzero()[0])",
                           printable(*type)));
}

std::uint64_t parse_number(std::string_view line, const std::string& path, std::uint64_t at) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = line.find_first_not_of(kBlanks);
  const std::string_view digits = line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && stop == digits.data() + digits.size()) return value;
  constexpr std::size_t kShownBytes = 40;
  refuse(path, fmt::format("line {}: '{}' is no sample number; write one whole number from 0 up a "
                           "line",
                           at, printable(digits.substr(0, kShownBytes))));
}

}  // namespace

std::vector<std::string> read_key_list(const std::string& path) {
  const std::string content = read_list_file(path);
  std::vector<std::string> keys;
  for_each_line(content, path,
                [&](std::string_view line, std::uint64_t) { keys.emplace_back(line); });
  return keys;
}

std::vector<std::uint64_t> read_index_list(const std::string& path) {
  const Result<Fd> fd = open_for_reading(path);
  if (!fd) raise(fd.error());
  std::array<char, kNpyMagic.size()> start{};
  const Result<std::size_t> got = read_at(fd->get(), path, 0, start);
  if (!got) raise(got.error());
  if (path.ends_with(".npy") || std::string_view(start.data(), *got) == kNpyMagic) {
    return read_npy(*fd, path);
  }
  const std::string content = read_list_file(path);
  std::vector<std::uint64_t> numbers;
  for_each_line(content, path, [&](std::string_view line, std::uint64_t at) {
    numbers.push_back(parse_number(line, path, at));
  });
  return numbers;
}

}  // namespace feedrace::formats
