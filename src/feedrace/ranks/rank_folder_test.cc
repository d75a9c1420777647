// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ranks/rank_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"
#include "feedrace/ranks/rank_check.h"
#include "feedrace/ranks/rank_file.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::ranks {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kLongSeconds = 60;  // Guards against a hang.
constexpr double kShortSeconds = 0.1;

/// An exchange's error, or what it gave.
struct Outcome {
  std::string message = "no error";
  ErrorCode code = ErrorCode::kCancelled;
  std::vector<std::string> texts;
};

Outcome outcome_of(const std::function<std::vector<std::string>()>& exchange) {
  Outcome outcome;
  try {
    outcome.texts = exchange();
  } catch (const Error& error) {
    outcome.message = error.what();
    outcome.code = error.code();
  }
  return outcome;
}

class RankFolder : public ::testing::Test {
 protected:
  std::string folder() const { return dir_ / "ranks"; }

  RankCheck check(double seconds = kLongSeconds) const { return {folder(), nullptr, seconds}; }

  Outcome exchange(std::uint64_t rank, std::uint64_t size, const std::string& text,
                   const std::string& occasion = "start", double seconds = kLongSeconds) const {
    return outcome_of(
        [&] { return exchange_in_folder(check(seconds), {rank, size, ""}, occasion, text); });
  }

  /// Every rank of `ranks` at a time; outcomes in their order.
  std::vector<Outcome> exchange_all(const std::vector<std::uint64_t>& ranks, std::uint64_t size,
                                    const std::string& text, double seconds = kLongSeconds) const {
    std::vector<Outcome> outcomes(ranks.size());
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] {
        outcomes[i] =
            exchange(ranks[i], size, fmt::format("{} {}", text, ranks[i]), "start", seconds);
      });
    }
    threads.clear();
    return outcomes;
  }

  /// Waits until the rank's file is there and `is_so`; the test's own time limit guards it.
  RankFile await_file(std::uint64_t rank, const std::function<bool(const RankFile&)>& is_so) const {
    while (true) {
      const auto file = read_rank_file(folder(), rank);
      if (file && is_so(*file)) return *file;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  static RankFile file_of(std::uint64_t rank, std::uint64_t size, const std::string& echo) {
    RankFile file;
    file.rank = rank;
    file.world_size = size;
    file.occasion = "start";
    file.nonce = make_nonce();
    file.echo = echo;
    file.text = "another process";
    return file;
  }

  const testing::TempDir dir_;
};

void expect_texts(const Outcome& outcome, const std::string& text, std::size_t size) {
  EXPECT_EQ(outcome.message, "no error");
  ASSERT_EQ(outcome.texts.size(), size);
  for (std::size_t rank = 0; rank < size; ++rank) {
    EXPECT_EQ(outcome.texts[rank], fmt::format("{} {}", text, rank));
  }
}

TEST_F(RankFolder, GivesEveryTextToEveryRank) {
  for (const Outcome& outcome : exchange_all({0, 1}, 2, "two")) expect_texts(outcome, "two", 2);
  for (const Outcome& outcome : exchange_all({4, 3, 2, 1, 0}, 5, "five\xff\n")) {
    expect_texts(outcome, "five\xff\n", 5);
  }
}

TEST_F(RankFolder, LeavesFilesThatAllMayReadAndNoTemporaryOnes) {
  exchange_all({0, 1, 2}, 3, "x");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    names.push_back(entry.path().filename());
    struct stat status = {};
    ASSERT_EQ(stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0644U);
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("rank-0.json", "rank-1.json", "rank-2.json"));
}

TEST_F(RankFolder, ManyExchangesInARowGiveEachItsOwnTexts) {
  constexpr std::uint64_t kSize = 4;
  constexpr int kRounds = 30;
  std::vector<std::string> wrong(kSize);
  std::vector<std::jthread> threads;
  for (std::uint64_t rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      for (int round = 0; round < kRounds && wrong[rank].empty(); ++round) {
        // Two after another have the same name, as those of two loaders of one program.
        const Outcome outcome = exchange(rank, kSize, fmt::format("{} {}", round, rank),
                                         fmt::format("state {}", round / 2));
        for (std::uint64_t other = 0; other < kSize; ++other) {
          if (outcome.texts.size() != kSize ||
              outcome.texts[other] != fmt::format("{} {}", round, other)) {
            wrong[rank] = fmt::format("round {}: {}", round, outcome.message);
          }
        }
      }
    });
  }
  threads.clear();
  EXPECT_THAT(wrong, Each(IsEmpty()));
}

TEST_F(RankFolder, WhatAFinishedRunLeftDoesNoHarm) {
  exchange_all({0, 1, 2}, 3, "old");
  const RankFile old_first = *read_rank_file(folder(), 0);
  std::vector<Outcome> outcomes(3);
  std::vector<std::jthread> threads;
  for (const std::uint64_t rank : {1, 2}) {
    const RankFile old = *read_rank_file(folder(), rank);
    threads.emplace_back(
        [&, rank] { outcomes[rank] = exchange(rank, 3, fmt::format("new {}", rank)); });
    // Both answer the dead rank 0 before the new one comes.
    const RankFile answer =
        await_file(rank, [&](const RankFile& file) { return file.nonce != old.nonce; });
    EXPECT_EQ(answer.echo, old_first.nonce);
  }
  outcomes[0] = exchange(0, 3, "new 0");
  threads.clear();
  for (const Outcome& outcome : outcomes) expect_texts(outcome, "new", 3);
}

TEST_F(RankFolder, WhatARunThatDiedHalfwayLeftDoesNoHarm) {
  exchange_all({0, 1}, 3, "old", kShortSeconds);  // Rank 2 never came.
  for (const Outcome& outcome : exchange_all({0, 1, 2}, 3, "new")) expect_texts(outcome, "new", 3);
}

TEST_F(RankFolder, RubbishIsReplaced) {
  dir_.write("ranks/rank-0.json", std::string(1'000'000, '['));
  dir_.write("ranks/rank-1.json", R"({"format":"feedrace rank","rank":1})");
  dir_.write("ranks/rank-2.json", "\xff\xfe rubbish");
  std::filesystem::resize_file(dir_.write("ranks/rank-3.json", "{"), kMostRankFileBytes + 1);
  ASSERT_EQ(mkfifo((folder() + "/rank-4.json").c_str(), 0600), 0);
  dir_.write("ranks/notes.txt", "not ours");
  for (const Outcome& outcome : exchange_all({0, 1, 2, 3, 4}, 5, "x")) {
    expect_texts(outcome, "x", 5);
  }
}

TEST_F(RankFolder, Rank0NamesTheRanksThatHaveNotCome) {
  const Outcome one = exchange(0, 2, "", "start", kShortSeconds);
  EXPECT_EQ(one.code, ErrorCode::kIo);
  EXPECT_THAT(one.message, AllOf(HasSubstr("rank 1 has not come within 0.1 s"), HasSubstr(folder()),
                                 HasSubstr("'start'")));
  EXPECT_THAT(exchange(0, 3, "", "start", kShortSeconds).message,
              HasSubstr("ranks 1 and 2 have not come"));
  EXPECT_THAT(exchange(0, 100, "", "start", kShortSeconds).message,
              HasSubstr("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 91 more have not come"));
}

TEST_F(RankFolder, OtherRanksNameTheRanksThatHaveNotCome) {
  const Outcome alone = exchange(1, 3, "", "start", kShortSeconds);
  EXPECT_EQ(alone.code, ErrorCode::kIo);
  EXPECT_THAT(alone.message, HasSubstr("rank 0 has not come within 0.1 s"));
  write_rank_file(folder(), file_of(0, 3, ""));
  EXPECT_THAT(exchange(1, 3, "", "start", kShortSeconds).message,
              HasSubstr("rank 0 has not answered: rank 2 has not come"));
  EXPECT_THAT(exchange(1, 2, "", "start", kShortSeconds).message,
              HasSubstr("rank 0 has not answered (its file is of 3 ranks)"));
  EXPECT_THAT(exchange(1, 3, "", "state 1", kShortSeconds).message,
              HasSubstr("rank 0 has not come (its file is of 'start')"));
}

TEST_F(RankFolder, ASecondProcessOfTheSameRankIsNoticed) {
  const RankFile first = file_of(0, 3, "");
  make_rank_folder(folder());
  write_rank_file(folder(), first);
  Outcome outcome;
  {
    const std::jthread thread([&] { outcome = exchange(1, 3, "x"); });
    await_file(1, [](const RankFile&) { return true; });
    write_rank_file(folder(), file_of(1, 3, first.nonce));
  }
  EXPECT_EQ(outcome.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(outcome.message, HasSubstr("two processes say that they are rank 1"));
}

TEST_F(RankFolder, ASecondRank0IsNoticed) {
  Outcome outcome;
  {
    const std::jthread thread([&] { outcome = exchange(0, 2, "x"); });
    await_file(0, [](const RankFile&) { return true; });
    write_rank_file(folder(), file_of(0, 2, ""));
  }
  EXPECT_EQ(outcome.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(outcome.message, HasSubstr("two processes say that they are rank 0"));
}

TEST_F(RankFolder, AClearedFolderIsFilledAgain) {
  std::vector<Outcome> outcomes(2);
  {
    const std::jthread thread([&] { outcomes[0] = exchange(0, 2, "x 0"); });
    await_file(0, [](const RankFile&) { return true; });
    std::filesystem::remove(folder() + "/rank-0.json");
    outcomes[1] = exchange(1, 2, "x 1");
  }
  for (const Outcome& outcome : outcomes) expect_texts(outcome, "x", 2);
}

TEST_F(RankFolder, MakesTheFolderAndThoseAboveIt) {
  RankCheck deep = check();
  deep.folder += "/a/b";
  Outcome other;
  {
    const std::jthread thread([&] {
      other = outcome_of([&] { return exchange_in_folder(deep, {1, 2, ""}, "start", "x 1"); });
    });
    expect_texts(outcome_of([&] { return exchange_in_folder(deep, {0, 2, ""}, "start", "x 0"); }),
                 "x", 2);
  }
  expect_texts(other, "x", 2);
}

TEST_F(RankFolder, AFolderThatCanNotBeMadeIsNamed) {
  dir_.write("ranks", "a file");
  const Outcome outcome = exchange(0, 2, "");
  EXPECT_EQ(outcome.code, ErrorCode::kIo);
  EXPECT_THAT(outcome.message, AllOf(HasSubstr(folder()),
                                     AnyOf(HasSubstr("Not a directory"), HasSubstr("File exists")),
                                     HasSubstr("give a folder that all ranks can write to")));
}

TEST_F(RankFolder, AFolderThatCanNotBeWrittenIsNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write to every folder";
  std::filesystem::create_directory(folder());
  std::filesystem::permissions(folder(), std::filesystem::perms(0555));
  const Outcome outcome = exchange(0, 2, "");
  EXPECT_EQ(outcome.code, ErrorCode::kIo);
  EXPECT_THAT(outcome.message, AllOf(HasSubstr(folder()), HasSubstr("Permission denied")));
}

class RankCheckInAFolder : public RankFolder {
 protected:
  /// What each rank's check throws; the ranks differ in their seeds and idea of the world's size.
  std::vector<std::string> messages_of(const std::vector<std::string>& seeds,
                                       const std::vector<std::uint64_t>& sizes) const {
    std::vector<std::string> messages(seeds.size());
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < seeds.size(); ++rank) {
      threads.emplace_back([&, rank] {
        messages[rank] =
            outcome_of([&] {
              check_ranks(check(), {rank, sizes[rank], ""}, "start", {{"seed", seeds[rank]}});
              return std::vector<std::string>();
            }).message;
      });
    }
    threads.clear();
    return messages;
  }
};

TEST_F(RankCheckInAFolder, TellsEveryRankWhatDiffers) {
  EXPECT_THAT(messages_of({"7", "7", "7", "7", "7"}, {5, 5, 5, 5, 5}), Each("no error"));
  EXPECT_THAT(messages_of({"7", "7", "8"}, {3, 3, 3}),
              Each(HasSubstr("ranks differ: seed is 7 on rank 0 and 8 on rank 2")));
  EXPECT_THAT(messages_of({"7", "7"}, {2, 2}), Each("no error"));
}

TEST_F(RankCheckInAFolder, TellsSizesThatDifferWithoutWaitingForRanksThatNeverCome) {
  EXPECT_THAT(messages_of({"7", "7"}, {2, 3}),
              Each(HasSubstr("world_size is 2 on rank 0 and 3 on rank 1")));
  EXPECT_THAT(messages_of({"7", "7"}, {3, 2}),
              Each(HasSubstr("world_size is 3 on rank 0 and 2 on rank 1")));
}

}  // namespace
}  // namespace feedrace::ranks
