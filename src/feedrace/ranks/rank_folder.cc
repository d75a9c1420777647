// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ranks/rank_folder.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/ranks/rank_file.h"

namespace feedrace::ranks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstPause{5};
constexpr std::chrono::milliseconds kLongestPause{100};
constexpr std::size_t kRanksListed = 8;

/// Sleeps a little longer each time, until the time is up.
class Patience {
 public:
  explicit Patience(double seconds) : end_(Clock::now() + as_duration(seconds)) {}

  /// After something has happened, the next is likely near.
  void shorten() noexcept { pause_ = kFirstPause; }

  /// False when the time is up.
  bool pause() {
    const Clock::time_point now = Clock::now();
    if (now >= end_) return false;
    std::this_thread::sleep_for(std::min<Clock::duration>(pause_, end_ - now));
    pause_ = std::min(pause_ * 2, kLongestPause);
    return true;
  }

 private:
  static Clock::duration as_duration(double seconds) {
    constexpr double kForever = 1e9;  // 30 years; more may not fit a clock.
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(std::min(seconds, kForever)));
  }

  Clock::time_point end_;
  std::chrono::milliseconds pause_ = kFirstPause;
};

/// "rank 2 has", "ranks 2 and 5 have", "ranks 1, 2, 3 and 12 more have".
std::string ranks_have(const std::vector<std::uint64_t>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {} has", ranks[0]);
  const std::size_t listed = std::min(ranks.size(), kRanksListed);
  if (listed < ranks.size()) {
    return fmt::format("ranks {} and {} more have",
                       fmt::join(ranks.begin(), ranks.begin() + kRanksListed, ", "),
                       ranks.size() - listed);
  }
  return fmt::format("ranks {} and {} have", fmt::join(ranks.begin(), ranks.end() - 1, ", "),
                     ranks.back());
}

class Exchange {
 public:
  Exchange(const RankCheck& check, const World& world, const std::string& occasion,
           const std::string& text)
      : folder_(check.folder),
        timeout_seconds_(check.timeout_seconds),
        patience_(check.timeout_seconds) {
    mine_.rank = world.rank;
    mine_.world_size = world.size;
    mine_.occasion = occasion;
    mine_.nonce = make_nonce();
    mine_.text = text;
  }

  std::vector<std::string> run() {
    make_rank_folder(folder_);
    return mine_.rank == 0 ? gather() : take_part();
  }

 private:
  /// Rank 0's part.
  std::vector<std::string> gather() {
    RankFile::Answer answer;
    answer.nonces.resize(mine_.world_size);
    answer.texts.resize(mine_.world_size);
    answer.nonces[0] = mine_.nonce;
    answer.texts[0] = std::exchange(mine_.text, {});
    // A rank that has not yet seen the answer of the exchange before must find it still.
    if (std::optional<RankFile> before = read_rank_file(folder_, 0)) {
      mine_.answer = std::move(before->answer);
    }
    write_rank_file(folder_, mine_);
    while (!collect(answer)) {
      check_alone();
      if (!patience_.pause()) {
        fail_late(ranks_have(missing_of(mine_.nonce)) + " not come");
      }
    }
    check_collected(answer);
    mine_.answer = answer;
    write_rank_file(folder_, mine_);
    return std::move(answer.texts);
  }

  /// Takes the ranks that have come since; true when all have, or when one has come with another
  /// idea of how many they are: then some may never come, and the answer shows why.
  bool collect(RankFile::Answer& answer) const {
    bool is_complete = true;
    bool sizes_differ = false;
    for (std::uint64_t rank = 1; rank < mine_.world_size; ++rank) {
      if (!answer.nonces[rank].empty()) continue;
      std::optional<RankFile> file = read_rank_file(folder_, rank);
      if (!file || !answers(*file, mine_.nonce)) {
        is_complete = false;
        continue;
      }
      answer.nonces[rank] = file->nonce;
      answer.texts[rank] = std::move(file->text);
      sizes_differ |= file->world_size != mine_.world_size;
    }
    return is_complete || sizes_differ;
  }

  /// A second process of a rank has replaced the file of the first.
  void check_collected(const RankFile::Answer& answer) const {
    for (std::uint64_t rank = 1; rank < mine_.world_size; ++rank) {
      if (answer.nonces[rank].empty()) continue;
      const std::optional<RankFile> file = read_rank_file(folder_, rank);
      if (file && answers(*file, mine_.nonce) && file->nonce != answer.nonces[rank]) {
        fail_double(rank);
      }
    }
  }

  bool answers(const RankFile& file, const std::string& nonce) const {
    return file.echo == nonce && file.occasion == mine_.occasion && !file.nonce.empty();
  }

  /// The part of all other ranks.
  std::vector<std::string> take_part() {
    while (true) {
      std::optional<RankFile> first = read_rank_file(folder_, 0);
      if (first && has_mine(*first)) return std::move(first->answer->texts);
      if (!mine_.echo.empty()) check_alone();
      if (first && first->occasion == mine_.occasion && first->nonce != mine_.echo) {
        mine_.echo = first->nonce;
        patience_.shorten();
        write_rank_file(folder_, mine_);
      }
      if (!patience_.pause()) fail_without_answer(first);
    }
  }

  bool has_mine(const RankFile& first) const {
    return first.answer && first.answer->nonces.size() > mine_.rank &&
           first.answer->nonces[mine_.rank] == mine_.nonce;
  }

  /// A rank's file is its own once it has written it; somebody may have cleared the folder.
  void check_alone() const {
    const std::optional<RankFile> file = read_rank_file(folder_, mine_.rank);
    if (!file) {
      write_rank_file(folder_, mine_);
    } else if (file->nonce != mine_.nonce) {
      fail_double(mine_.rank);
    }
  }

  std::vector<std::uint64_t> missing_of(const std::string& nonce) const {
    std::vector<std::uint64_t> missing;
    for (std::uint64_t rank = 1; rank < mine_.world_size; ++rank) {
      const std::optional<RankFile> file = read_rank_file(folder_, rank);
      if (!file || !answers(*file, nonce)) missing.push_back(rank);
    }
    return missing;
  }

  [[noreturn]] void fail_without_answer(const std::optional<RankFile>& first) const {
    if (!first || first->occasion != mine_.occasion) {
      fail_late(first ? fmt::format("rank 0 has not come (its file is of '{}')",
                                    printable(first->occasion))
                      : "rank 0 has not come");
    }
    if (first->world_size != mine_.world_size) {
      fail_late(
          fmt::format("rank 0 has not answered (its file is of {} ranks)", first->world_size));
    }
    const std::vector<std::uint64_t> missing = missing_of(first->nonce);
    fail_late(missing.empty()
                  ? "rank 0 has not answered (it may have ended, and left its file)"
                  : fmt::format("rank 0 has not answered: {} not come", ranks_have(missing)));
  }

  [[noreturn]] void fail_late(const std::string& what) const {
    throw Error(
        ErrorCode::kIo,
        fmt::format("rank check: {}: {} within {} s (rank {} of {}, at '{}'); start all ranks "
                    "with this folder, or look for why one has ended",
                    printable(folder_), what, timeout_seconds_, mine_.rank, mine_.world_size,
                    printable(mine_.occasion)));
  }

  [[noreturn]] void fail_double(std::uint64_t rank) const {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("rank check: {}: two processes say that they are rank {}; give each its "
                    "own rank, and each job its own folder",
                    printable(folder_), rank));
  }

  const std::string& folder_;
  const double timeout_seconds_;
  Patience patience_;
  RankFile mine_;
};

}  // namespace

std::vector<std::string> exchange_in_folder(const RankCheck& check, const World& world,
                                            const std::string& occasion, const std::string& text) {
  return Exchange(check, world, occasion, text).run();
}

}  // namespace feedrace::ranks
