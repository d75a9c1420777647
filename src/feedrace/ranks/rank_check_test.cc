// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ranks/rank_check.h"

#include <barrier>
#include <functional>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"

namespace feedrace::ranks {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// An exchange between threads.
class Gathering {
 public:
  explicit Gathering(std::size_t size) : texts_(size), all_(static_cast<std::ptrdiff_t>(size)) {}

  RankCheck check_of(std::size_t rank) {
    RankCheck check;
    check.all_gather = [this, rank](const std::string& text) {
      texts_[rank] = text;
      all_.arrive_and_wait();
      return texts_;
    };
    return check;
  }

 private:
  std::vector<std::string> texts_;
  std::barrier<> all_;
};

RankFacts facts_of(const std::string& seed) {
  return {{"version", "0.1.0"}, {"seed", seed}, {"fingerprint of /data", "0123"}};
}

/// What each rank's check throws, by rank.
std::vector<std::string> messages_of(const std::vector<RankFacts>& facts) {
  Gathering gathering(facts.size());
  std::vector<std::string> messages(facts.size(), "no error");
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        check_ranks(gathering.check_of(rank), {rank, facts.size(), "arguments"}, "start",
                    facts[rank]);
      } catch (const Error& error) {
        messages[rank] = error.what();
      }
    });
  }
  threads.clear();
  return messages;
}

/// What a check throws on rank 0 of two, when all_gather makes `texts` of rank 0's text.
std::string message_of(
    const std::function<std::vector<std::string>(const std::string&)>& all_gather) {
  RankCheck check;
  check.all_gather = all_gather;
  try {
    check_ranks(check, {0, 2, "arguments"}, "start", facts_of("7"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

std::string replaced(std::string text, const std::string& old, const std::string& by) {
  return text.replace(text.find(old), old.size(), by);
}

TEST(RankCheck, IsContentWhenAllRanksAgree) {
  for (const std::size_t size : {2, 5}) {
    EXPECT_THAT(messages_of(std::vector<RankFacts>(size, facts_of("7"))), Each("no error"));
  }
}

TEST(RankCheck, NamesTheFactRanksAndValuesOnEveryRank) {
  std::vector<RankFacts> facts(5, facts_of("7"));
  facts[3][1].second = "8";
  EXPECT_THAT(messages_of(facts), Each("ranks differ: seed is 7 on rank 0 and 8 on rank 3; start "
                                       "all ranks with the same settings and data"));
  facts[3][2].second = "4567";
  EXPECT_THAT(messages_of(facts),
              Each("ranks differ: seed is 7 on rank 0 and 8 on rank 3 (and 1 more fact: "
                   "fingerprint of /data); start all ranks with the same settings and data"));
  facts[4][1].second = "9";
  EXPECT_THAT(messages_of(facts),
              Each(HasSubstr("seed is 7 on rank 0, 8 on rank 3 and 9 on rank 4 (and 1 more fact")));
}

TEST(RankCheck, NamesThreeRanksAndCountsTheRest) {
  std::vector<RankFacts> facts(6, facts_of("8"));
  facts[0] = facts_of("7");
  EXPECT_THAT(messages_of(facts),
              Each(HasSubstr("seed is 7 on rank 0, 8 on rank 1, 8 on rank 2 and 8 on rank 3 (and 2 "
                             "more ranks);")));
}

TEST(RankCheck, AFactThatOneSideLacksDiffers) {
  std::vector<RankFacts> facts(2, facts_of("7"));
  facts[0].push_back({"chunk", "64"});
  EXPECT_THAT(messages_of(facts), Each(HasSubstr("chunk is 64 on rank 0 and absent on rank 1")));
  std::swap(facts[0], facts[1]);
  EXPECT_THAT(messages_of(facts), Each(HasSubstr("chunk is absent on rank 0 and 64 on rank 1")));
}

TEST(RankCheck, CarriesFactsThatAreNotUtf8) {
  std::vector<RankFacts> facts(2, {{"\xe9t\xe9", "\xff\n"}});
  EXPECT_THAT(messages_of(facts), Each("no error"));
  facts[1][0].second = "\xfe";
  EXPECT_THAT(messages_of(facts),
              Each(HasSubstr("\\xe9t\\xe9 is \\xff\\x0a on rank 0 and \\xfe on")));
}

TEST(RankCheck, AnotherSizeOrOccasionDiffers) {
  EXPECT_THAT(message_of([](const std::string& text) {
                return std::vector{text, replaced(replaced(text, R"("rank":0)", R"("rank":1)"),
                                                  R"("world_size":2)", R"("world_size":4)")};
              }),
              HasSubstr("world_size is 2 on rank 0 and 4 on rank 1"));
  EXPECT_THAT(message_of([](const std::string& text) {
                return std::vector{text, replaced(replaced(text, R"("rank":0)", R"("rank":1)"),
                                                  "\"start\"", "\"state 1\"")};
              }),
              HasSubstr("the check is start on rank 0 and state 1 on rank 1"));
}

TEST(RankCheck, RefusesWhatAllGatherMayNotGive) {
  EXPECT_THAT(message_of([](const std::string& text) { return std::vector{text}; }),
              HasSubstr("all_gather gave 1 texts for 2 ranks"));
  EXPECT_THAT(message_of([](const std::string& text) { return std::vector{text, text}; }),
              HasSubstr("two processes say that they are rank 0"));
  EXPECT_THAT(message_of([](const std::string& text) {
                return std::vector{replaced(text, R"("rank":0)", R"("rank":1)"), text};
              }),
              HasSubstr("text 0 of all_gather is of rank 1"));
  for (const char* rubbish : {"", "{", "[]", "7", R"({"rank":1})", R"({"rank":"1"})"}) {
    EXPECT_THAT(message_of([&](const std::string& text) {
                  return std::vector<std::string>{text, rubbish};
                }),
                HasSubstr("the text of rank 1 is none that a rank gave"));
  }
}

TEST(RankCheck, LetsTheCallsExceptionThrough) {
  RankCheck check;
  check.all_gather = [](const std::string&) -> std::vector<std::string> {
    throw std::out_of_range("of the call");
  };
  EXPECT_THROW(check_ranks(check, {0, 2, ""}, "start", {}), std::out_of_range);
}

TEST(RankCheck, DoesNothingInAWorldOfOne) {
  RankCheck check;
  check.folder = "/dev/null/no folder";
  check.all_gather = [](const std::string&) -> std::vector<std::string> {
    throw std::logic_error("called");
  };
  EXPECT_NO_THROW(check_ranks(check, {0, 1, ""}, "start", facts_of("7")));
}

TEST(RankCheck, WantsOneOfTheTwoWaysAndATime) {
  const auto message = [](const RankCheck& check) -> std::string {
    try {
      check_ranks(check, {0, 2, ""}, "start", {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "no error";
  };
  RankCheck check;
  EXPECT_THAT(message(check), HasSubstr("neither a folder nor all_gather"));
  check.folder = "/dev/null/no folder";
  check.all_gather = [](const std::string&) { return std::vector<std::string>(); };
  EXPECT_THAT(message(check), HasSubstr("both a folder and all_gather"));
  check.folder = "";
  check.timeout_seconds = 0;
  EXPECT_THAT(message(check), HasSubstr("timeout_seconds is 0"));
}

}  // namespace
}  // namespace feedrace::ranks
