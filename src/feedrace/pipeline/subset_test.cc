// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/subset.h"

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"
#include "feedrace/pipeline/test_sets.h"

namespace feedrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::uint64_t> members(const ChosenSubset& chosen) {
  std::vector<std::uint64_t> samples;
  for (std::uint64_t i = 0; i < chosen.selection.size(); ++i) {
    samples.push_back(chosen.selection.sample(i));
  }
  return samples;
}

std::string refusal(const formats::Dataset& dataset, const Subset& subset) {
  try {
    choose_subset(dataset, subset);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "the subset was taken";
  return "";
}

class SubsetOfFolder : public ::testing::Test {
 protected:
  // c0/000 c0/003 c0/006 c0/009 c1/001 c1/004 c1/007 c2/002 c2/005 c2/008
  const testing::TempDir dir_;
  const std::unique_ptr<formats::Dataset> dataset_ =
      formats::open_dataset({write_folder(dir_, 10)});
};

TEST_F(SubsetOfFolder, WithoutConditionsIsAll) {
  const ChosenSubset chosen = choose_subset(*dataset_, {});
  EXPECT_EQ(chosen.text, "all");
  EXPECT_EQ(chosen.selection.size(), 10u);
}

TEST_F(SubsetOfFolder, ListsKeepTheirOrder) {
  Subset by_index;
  by_index.indices = {7, 0, 7};
  EXPECT_THAT(members(choose_subset(*dataset_, by_index)), ElementsAre(7u, 0u, 7u));
  Subset by_key;
  by_key.keys = {"c2/002.jpg", "c0/000", "./c1/004.png"};  // Compared in canonical form.
  EXPECT_THAT(members(choose_subset(*dataset_, by_key)), ElementsAre(7u, 0u, 5u));
}

TEST_F(SubsetOfFolder, ConditionsHoldTogether) {
  Subset subset;
  subset.key_pattern = "c[01]/*";
  EXPECT_THAT(members(choose_subset(*dataset_, subset)), ElementsAre(0u, 1u, 2u, 3u, 4u, 5u, 6u));
  subset.key_filter = [](std::string_view key) { return key.back() >= '4'; };
  EXPECT_THAT(members(choose_subset(*dataset_, subset)), ElementsAre(2u, 3u, 5u, 6u));
  subset.indices = {6, 0, 2};
  EXPECT_THAT(members(choose_subset(*dataset_, subset)), ElementsAre(6u, 2u));
}

TEST_F(SubsetOfFolder, APatternMatchesAKeyWithItsSuffixOrWithout) {
  dir_.write("folder/c3/a.b.png", "");
  dir_.write("folder/c3/c.jpg", "");
  const auto dataset = formats::open_dataset({dir_ / "folder"});
  const auto matched = [&](const std::string& pattern) {
    Subset subset;
    subset.key_pattern = pattern;
    return members(choose_subset(*dataset, subset));
  };
  EXPECT_THAT(matched("c3/*"), ElementsAre(10u, 11u));
  EXPECT_THAT(matched("c3/a"), ElementsAre(10u));
  EXPECT_THAT(matched("c3/a.b.png"), ElementsAre(10u));
  EXPECT_THAT(matched("*.png"), ElementsAre(10u));
  EXPECT_THAT(matched("c[23]/*.jpg"), ElementsAre(7u, 8u, 9u, 11u));
  EXPECT_THAT(matched("*/?"), ElementsAre(10u, 11u));
}

TEST_F(SubsetOfFolder, RefusesWhatTheSetDoesNotHave) {
  Subset subset;
  subset.indices = {3, 10, 99};
  EXPECT_THAT(refusal(*dataset_, subset),
              AllOf(HasSubstr("index 10"), HasSubstr("0 to 9"), HasSubstr("1 more")));
  subset = {};
  subset.keys = {"c0/000", "c9/000", "x", "y"};
  EXPECT_THAT(refusal(*dataset_, subset),
              AllOf(HasSubstr("c9/000"), HasSubstr("like c0/000"), HasSubstr("2 more")));
  subset.indices = {1};
  EXPECT_THAT(refusal(*dataset_, subset), HasSubstr("give one"));
  subset = {};
  subset.key_pattern = "d*";
  EXPECT_THAT(
      refusal(*dataset_, subset),
      AllOf(HasSubstr("none of 10"), HasSubstr("like c0/000.jpg, indices from 0 to 9;"),
            HasSubstr("widen key_pattern, key_filter or share"), HasSubstr("a range of indices")));
  subset = {};
  subset.indices = std::vector<std::uint64_t>{};
  EXPECT_THAT(refusal(*dataset_, subset), HasSubstr("none of 10"));
}

TEST_F(SubsetOfFolder, RefusesSharesThatAreNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Subset::Share share :
       {Subset::Share{0.5, 0.5}, {0.6, 0.5}, {-0.1, 1}, {0, 1.1}, {nan, 1}, {0, nan}}) {
    Subset subset;
    subset.share = share;
    EXPECT_THAT(refusal(*dataset_, subset), HasSubstr("share"));
  }
}

TEST_F(SubsetOfFolder, RefusesAKeyThatTwoSamplesHave) {
  dir_.write("folder/c0/000.png", "another picture of the same key");
  const auto dataset = formats::open_dataset({dir_ / "folder"});
  Subset subset;
  subset.keys = {"c0/000"};
  EXPECT_THAT(refusal(*dataset, subset), AllOf(HasSubstr("000.jpg"), HasSubstr("000.png")));
}

TEST_F(SubsetOfFolder, TextTellsSubsetsApart) {
  Subset one;
  one.indices = {1, 2};
  Subset two;
  two.indices = {2, 1};
  EXPECT_EQ(choose_subset(*dataset_, one).text, choose_subset(*dataset_, one).text);
  EXPECT_NE(choose_subset(*dataset_, one).text, choose_subset(*dataset_, two).text);
  Subset filtered;
  filtered.key_filter = [](std::string_view key) { return key < "c1"; };
  filtered.key_filter_name = "first class";
  EXPECT_THAT(choose_subset(*dataset_, filtered).text,
              AllOf(HasSubstr("first class"), HasSubstr("4 of 10")));
}

TEST(Share, SplitsWithoutGapOrOverlapAndStaysWhenDataIsAdded) {
  const testing::TempDir dir;
  const auto keys_of = [&](double begin, double end, std::uint64_t salt) {
    const auto dataset = formats::open_dataset({dir / "folder"});
    Subset subset;
    subset.share = {begin, end};
    subset.share_salt = salt;
    std::set<std::string> keys;
    for (const std::uint64_t i : members(choose_subset(*dataset, subset))) {
      keys.insert(dataset->key(i));
    }
    return keys;
  };
  for (int i = 0; i < 400; ++i) dir.write("folder/a/" + std::to_string(i) + ".jpg", "x");
  const std::set<std::string> train = keys_of(0, 0.75, 0);
  const std::set<std::string> validate = keys_of(0.75, 1, 0);
  EXPECT_EQ(train.size() + validate.size(), 400u);
  for (const std::string& key : validate) EXPECT_EQ(train.count(key), 0u);
  EXPECT_NEAR(static_cast<double>(train.size()), 300, 40);  // Four standard deviations and a half.
  EXPECT_NE(keys_of(0, 0.75, 1), train);
  for (int i = 400; i < 800; ++i) dir.write("folder/Z/" + std::to_string(i) + ".jpg", "x");
  const std::set<std::string> grown = keys_of(0, 0.75, 0);
  for (const std::string& key : train) EXPECT_EQ(grown.count(key), 1u) << key;
  for (const std::string& key : validate) EXPECT_EQ(grown.count(key), 0u) << key;
}

TEST(Share, PlacesAKeyTheSameOnEveryMachineAndVersion) {
  EXPECT_DOUBLE_EQ(share_place("n01440764/n01440764_10026", 0), 0.81383169448716375);
  EXPECT_DOUBLE_EQ(share_place("n01440764/n01440764_10026", 7), 0.78594523871593991);
}

}  // namespace
}  // namespace feedrace::pipeline
