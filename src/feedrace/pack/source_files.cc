// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/source_files.h"

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/parallel.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::pack {

SourceFiles::SourceFiles(std::size_t count, std::size_t thread_count,
                         const std::function<std::string(std::size_t)>& path_of,
                         const Looked& looked)
    : stamps_(count) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kTold{100};
  const std::thread::id caller = std::this_thread::get_id();
  Clock::time_point told = Clock::now();
  std::atomic<std::size_t> done = 0;
  const auto tell = [&] {  // Calls do not overlap, as one thread makes them.
    if (!looked || std::this_thread::get_id() != caller || Clock::now() - told < kTold) return;
    told = Clock::now();
    looked(done, static_cast<double>(done) / static_cast<double>(count));
  };
  // A thread takes a stretch: neighbours lie in one folder, and a call each would cost more.
  constexpr std::size_t kStretch = 256;
  const std::size_t stretches = (count + kStretch - 1) / kStretch;
  formats::parallel_for(stretches, thread_count, [&](std::size_t stretch) {
    const std::size_t end = std::min(count, (stretch + 1) * kStretch);
    for (std::size_t i = stretch * kStretch; i < end; ++i) stamps_[i] = stamp_of(path_of(i));
    done += end - stretch * kStretch;
    tell();
  });
}

SourceFiles::Stamp SourceFiles::stamp_of(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return {0, 0, errno};
  if (!S_ISREG(status.st_mode)) return {0, 0, -1};
  return {formats::mtime_ns(status), static_cast<std::uint64_t>(status.st_size), 0};
}

Result<void> SourceFiles::fill(std::size_t i, std::string path, SourceMember& member) const {
  const Stamp& stamp = stamps_[i];
  if (stamp.error_number > 0) return formats::system_failure(path, "stat", stamp.error_number);
  if (stamp.error_number < 0) {
    return Failure{ErrorCode::kIo, fmt::format("{}: not a regular file", printable(path))};
  }
  member.from = SourceMember::From::kFile;
  member.path = std::move(path);
  member.size_bytes = stamp.size_bytes;
  member.file_bytes = stamp.size_bytes;
  member.mtime_ns = stamp.mtime_ns;
  return {};
}

std::string picture_field(std::string_view name) {
  std::string field(name.substr(name.rfind('.') + 1));
  for (char& c : field) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return field == "jpeg" ? "jpg" : field;
}

}  // namespace feedrace::pack
