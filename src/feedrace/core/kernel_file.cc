// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/kernel_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace feedrace {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

}  // namespace

std::string kernel_file(const std::string& path) {
  // A pipe that somebody put in its place is not waited for.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return {};
  std::string content;
  std::array<char, 4096> piece;
  while (content.size() < kMostBytes) {
    const ssize_t got = read(file, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) content.clear();
    if (got <= 0) break;
    content.append(piece.data(), static_cast<std::size_t>(got));
  }
  close(file);
  return content;
}

}  // namespace feedrace
