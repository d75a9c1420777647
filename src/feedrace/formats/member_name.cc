// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/member_name.h"

#include "feedrace/format.h"

namespace feedrace::formats {

std::optional<std::string_view> split_member_name(std::string_view path, std::string& field) {
  std::string_view inner = path;
  while (inner.starts_with("./")) inner.remove_prefix(2);
  const std::string_view first = inner.substr(0, inner.find('/'));
  if (first.size() > 4 && first.starts_with("__") && first.ends_with("__")) return std::nullopt;
  const std::size_t slash = path.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = path.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  field.assign(path.substr(dot + 1));
  for (char& c : field) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return path.substr(0, dot);
}

std::string_view canonical_key(std::string_view key) noexcept {
  while (key.starts_with("./")) key.remove_prefix(2);
  const std::size_t slash = key.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = key.find('.', base);
  return dot == base ? key : key.substr(0, dot);
}

}  // namespace feedrace::formats
