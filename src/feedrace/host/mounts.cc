// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/mounts.h"

#include <algorithm>
#include <cstddef>

namespace feedrace::host {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Space, tab, line end and backslash stand as a backslash and three octal digits.
std::string decode_escapes(std::string_view raw) {
  const auto digit = [&](std::size_t i) {
    return i < raw.size() && raw[i] >= '0' && raw[i] <= '7' ? raw[i] - '0' : -1;
  };
  std::string text;
  text.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const bool is_escape = raw[i] == '\\' && digit(i + 1) >= 0 && digit(i + 1) <= 3 &&
                           digit(i + 2) >= 0 && digit(i + 3) >= 0;
    text +=
        is_escape ? static_cast<char>(64 * digit(i + 1) + 8 * digit(i + 2) + digit(i + 3)) : raw[i];
    if (is_escape) i += 3;
  }
  return text;
}

/// "rw,relatime" and "rw,discard" are "rw,relatime,discard". Whether it may be written is said
/// once, by the mount: two answers in one list would only confuse.
std::string join_options(std::string_view mount, std::string_view file_system) {
  std::string joined(mount);
  const auto known = split(mount, ',');
  for (const std::string_view option : split(file_system, ',')) {
    if (option.empty() || option == "rw" || option == "ro") continue;
    if (std::find(known.begin(), known.end(), option) != known.end()) continue;
    if (!joined.empty()) joined += ',';
    joined += option;
  }
  return joined;
}

/// "36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue": as many
/// optional fields as there are, then a dash.
std::optional<Mount> parse_line(std::string_view line) {
  constexpr std::size_t kPoint = 4;
  constexpr std::size_t kOptions = 5;
  const auto fields = split(line, ' ');
  if (fields.size() <= kOptions + 1) return std::nullopt;
  const auto dash = std::find(fields.begin() + kOptions + 1, fields.end(), "-");
  const auto after = static_cast<std::size_t>(fields.end() - dash);
  if (after < 3 || !fields[kPoint].starts_with('/')) return std::nullopt;
  Mount mount;
  mount.point = decode_escapes(fields[kPoint]);
  mount.type = decode_escapes(dash[1]);
  mount.source = decode_escapes(dash[2]);
  mount.options = decode_escapes(join_options(fields[kOptions], after > 3 ? dash[3] : ""));
  return mount;
}

bool is_above(std::string_view point, std::string_view path) {
  if (point == "/") return path.starts_with('/');
  if (!path.starts_with(point)) return false;
  return path.size() == point.size() || path[point.size()] == '/';
}

}  // namespace

std::vector<Mount> parse_mounts(std::string_view text) {
  std::vector<Mount> mounts;
  for (const std::string_view line : split(text, '\n')) {
    if (auto mount = parse_line(line)) mounts.push_back(std::move(*mount));
  }
  return mounts;
}

std::optional<Mount> mount_of(const std::vector<Mount>& mounts, std::string_view path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    const bool is_nearer = best == nullptr || mount.point.size() >= best->point.size();
    if (is_nearer && is_above(mount.point, path)) best = &mount;
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::vector<std::string> overlay_layers(std::string_view options) {
  constexpr std::string_view kUpper = "upperdir=";
  constexpr std::string_view kLower = "lowerdir=";
  constexpr std::string_view kMoreLower = "lowerdir+=";
  // A comma or colon in a name is escaped by a backslash: rare, so not worth telling apart.
  if (options.find('\\') != std::string_view::npos) return {};
  std::vector<std::string> layers;
  bool has_lower = false;
  for (const std::string_view option : split(options, ',')) {
    if (option.starts_with(kUpper)) layers.emplace_back(option.substr(kUpper.size()));
    if (option.starts_with(kMoreLower)) layers.emplace_back(option.substr(kMoreLower.size()));
    if (option.starts_with(kLower)) {
      for (const auto layer : split(option.substr(kLower.size()), ':')) layers.emplace_back(layer);
    }
    has_lower = has_lower || option.starts_with(kLower) || option.starts_with(kMoreLower);
  }
  // Only absolute paths mean the same to us as to whoever mounted it.
  const bool all_absolute = std::all_of(layers.begin(), layers.end(), [](const std::string& layer) {
    return layer.starts_with('/');
  });
  return has_lower && all_absolute ? layers : std::vector<std::string>();
}

}  // namespace feedrace::host
