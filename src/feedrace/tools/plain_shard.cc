// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/plain_shard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/host/page_cache.h"
#include "feedrace/tools/whole_file.h"

namespace feedrace::tools {
namespace {

constexpr std::size_t kBlockBytes = 512;

/// A ustar header of a regular file.
std::array<char, kBlockBytes> header_of(const std::string& name, std::uint64_t size_bytes) {
  std::array<char, kBlockBytes> header{};
  const auto put = [&header](std::size_t at, std::string_view text) {
    std::memcpy(header.data() + at, text.data(), text.size());
  };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", size_bytes));
  put(136, "00000000000");
  put(148, "        ");  // The checksum is over blanks.
  put(156, "0");
  put(257, std::string_view("ustar\00000", 8));
  const unsigned sum = std::accumulate(header.begin(), header.end(), 0U, [](unsigned all, char c) {
    return all + static_cast<unsigned char>(c);
  });
  put(148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  return header;
}

void write_all(int fd, std::span<const char> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw Error(ErrorCode::kIo, fmt::format("{}: {}; give a folder with room for --scratch",
                                              printable(path), errno_text("write", errno)));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

}  // namespace

PlainShard::PlainShard(const std::string& folder, const formats::Dataset& dataset,
                       std::size_t limit_count, std::uint64_t limit_bytes)
    : path_(folder + "/feedrace-ceilings-XXXXXX.tar") {
  const int fd = mkstemps(path_.data(), 4);
  if (fd < 0) {
    throw Error(ErrorCode::kIo,
                fmt::format("{}: {}; give a folder that can be written for --scratch",
                            printable(folder), errno_text("mkstemps", errno)));
  }
  try {
    const std::uint64_t taken = std::min<std::uint64_t>(dataset.size(), limit_count);
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < taken && bytes < limit_bytes; ++i) {
      const std::string source = dataset.path(i * dataset.size() / taken);
      const auto content = read_whole_file(source);
      const std::string ending = std::filesystem::path(source).extension().string();
      write_all(fd, header_of(fmt::format("{:08}{}", i, ending.substr(0, 8)), content.size()),
                path_);
      write_all(fd, {reinterpret_cast<const char*>(content.data()), content.size()}, path_);
      const std::array<char, kBlockBytes> zeros{};
      const std::size_t rest = content.size() % kBlockBytes;
      if (rest > 0) write_all(fd, std::span(zeros).first(kBlockBytes - rest), path_);
      bytes += content.size();
      ++sample_count_;
    }
    write_all(fd, std::array<char, 2 * kBlockBytes>{}, path_);
    if (fdatasync(fd) == 0) static_cast<void>(host::drop_pages(fd, 0, 0));
  } catch (...) {
    close(fd);
    unlink(path_.c_str());
    throw;
  }
  close(fd);
}

PlainShard::~PlainShard() { unlink(path_.c_str()); }

}  // namespace feedrace::tools
