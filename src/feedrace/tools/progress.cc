// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::tools {

Progress::Progress(std::string what, std::uint64_t total)
    : what_(std::move(what)), total_(total), is_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (has_drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(std::uint64_t done) {
  update(done, total_ == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total_));
}

void Progress::update(std::uint64_t done, double share) {
  constexpr std::chrono::milliseconds kRedraw{100};
  constexpr int kBarCells = 24;
  const auto now = Clock::now();
  if (!is_terminal_ || (has_drawn_ && now - drawn_ < kRedraw)) return;
  drawn_ = now;
  has_drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  share = std::clamp(share, 0.0, 1.0);
  const int cells = static_cast<int>(share * kBarCells);
  std::string line = fmt::format("\r\x1b[K{} [{}{}] {} {:.0f}/s", what_, std::string(cells, '#'),
                                 std::string(kBarCells - cells, ' '), with_commas(done),
                                 seconds > 0 ? static_cast<double>(done) / seconds : 0.0);
  if (share > 0) line += fmt::format(", {:.0f} s left", seconds / share - seconds);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace feedrace::tools
