// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/order/state.h"

namespace feedrace::order {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

SetState set_named(const std::string& name, double weight = 0) {
  SetState set;
  set.name = name;
  set.sample_count = 23;
  set.selected_count = 23;
  set.fingerprint = "aaaa000000000001";
  set.key_fingerprint = "bbbb000000000001";
  set.key_set_fingerprint = "cccc000000000001";
  set.subset = "all";
  set.weight = weight;
  set.parts = {
      {"shard-000.tar", "9f3a21c0"}, {"shard-001.tar", "9f3a21c1"}, {"shard-002.tar", "9f3a21c2"}};
  return set;
}

State one_set() {
  State state;
  state.seed = 7;
  state.epoch_samples = 23;
  state.sets = {set_named("train")};
  state.batch_size = 256;
  state.last_batch = "drop";
  state.pipeline = "imagenet-train";
  state.on_error = "raise";
  return state;
}

State two_sets(double weight_a = 0, double weight_b = 0) {
  State state = one_set();
  state.epoch_samples = 46;
  state.sets = {set_named("a", weight_a), set_named("b", weight_b)};
  return state;
}

/// Data with nothing in common with the old.
void replace_data(SetState& set) {
  set.fingerprint = "aaaa000000000002";
  set.key_fingerprint = "bbbb000000000002";
  set.key_set_fingerprint = "cccc000000000002";
}

StateDifferences compared(const State& saved, const State& current, bool accept = false) {
  StateDifferences found = compare(saved, current, accept);
  for (const auto* list : {&found.errors, &found.notes}) {
    for (const std::string& line : *list) EXPECT_EQ(line.find('\n'), std::string::npos);
  }
  return found;
}

TEST(StateCompare, FindsNothingInTheSameState) {
  for (const State& state : {one_set(), two_sets(), two_sets(0.3, 0.7)}) {
    const StateDifferences found = compared(state, state);
    EXPECT_THAT(found.errors, IsEmpty());
    EXPECT_THAT(found.notes, IsEmpty());
  }
}

TEST(StateCompare, IgnoresPositionsAndBadSamples) {
  State saved = one_set();
  saved.epoch = 4;
  saved.position = 20;
  saved.bad_samples = 3;
  saved.sets[0].position = 112;
  const StateDifferences found = compared(saved, one_set());
  EXPECT_THAT(found.errors, IsEmpty());
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST(StateCompare, NamesAPartWhoseBytesChanged) {
  State current = one_set();
  current.sets[0].parts[2].digest = "11223344";
  EXPECT_THAT(compared(one_set(), current).errors,
              ElementsAre("shard-002.tar has changed since the state was saved (its bytes differ; "
                          "digest 9f3a21c2 then, 11223344 now); put the old file back, or accept "
                          "changed data"));
  const StateDifferences accepted = compared(one_set(), current, true);
  EXPECT_THAT(accepted.errors, IsEmpty());
  EXPECT_THAT(accepted.notes, ElementsAre(HasSubstr("shard-002.tar has changed")));
}

TEST(StateCompare, NamesThreeChangedPartsAndCountsTheRest) {
  State saved = one_set();
  saved.sets[0].parts.clear();
  for (int i = 0; i < 8; ++i) {
    saved.sets[0].parts.push_back({fmt::format("s{}", i), "00000000"});
  }
  State current = saved;
  for (StatePart& part : current.sets[0].parts) part.digest = "00000001";
  EXPECT_THAT(compared(saved, current).errors,
              ElementsAre(StartsWith("s0, s1, s2 and 5 more have changed since")));
}

TEST(StateCompare, NamesTheGroupThatAPartChangedIn) {
  State saved = one_set();
  saved.sets[0].parts = {{"s00", "00000000", 10}, {"s10", "00000000", 10}, {"s20", "00000000", 3}};
  State current = saved;
  current.sets[0].parts[1].digest = "00000001";
  EXPECT_THAT(compared(saved, current).errors,
              ElementsAre(StartsWith("something among those from s10 up to (not including) s20 has "
                                     "changed")));
  current = saved;
  current.sets[0].parts[2].digest = "00000001";
  EXPECT_THAT(compared(saved, current).errors,
              ElementsAre(StartsWith("something from s20 on has changed")));
}

TEST(StateCompare, RenamedPartsAreTheSameData) {
  State current = one_set();
  current.sets[0].parts[1].name = "moved.tar";
  const StateDifferences found = compared(one_set(), current);
  EXPECT_THAT(found.errors, IsEmpty());
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST(StateCompare, GoesOnFromShardsToAFolderInTheSameOrder) {
  State current = one_set();
  current.sets[0].fingerprint = "aaaa000000000002";
  current.sets[0].parts = {{"cat", "00000001"}, {"dog", "00000002"}};
  const StateDifferences found = compared(one_set(), current);
  EXPECT_THAT(found.errors, IsEmpty());
  EXPECT_THAT(found.notes,
              ElementsAre("the same samples in the same order, laid out differently (fingerprint "
                          "aaaa000000000001 then, aaaa000000000002 now); goes on"));
}

TEST(StateCompare, SaysWhichPartHasOtherSizesOfTheSameKeys) {
  State current = one_set();
  current.sets[0].fingerprint = "aaaa000000000002";
  current.sets[0].parts[0].digest = "00000001";
  EXPECT_THAT(compared(one_set(), current).errors,
              ElementsAre(HasSubstr("shard-000.tar has changed")));
  const StateDifferences accepted = compare(one_set(), current, /*accept_changed_data=*/true);
  EXPECT_THAT(accepted.errors, IsEmpty());
  EXPECT_THAT(accepted.notes, ElementsAre(HasSubstr("shard-000.tar has changed")));
}

TEST(StateCompare, UnknownKeyFingerprintsAreNotTakenForEqual) {
  State saved = one_set();
  saved.sets[0].key_fingerprint = "";
  saved.sets[0].key_set_fingerprint = "";
  State current = saved;
  current.sets[0].fingerprint = "aaaa000000000002";
  EXPECT_THAT(compared(saved, current).errors, ElementsAre(HasSubstr("another data set")));
}

TEST(StateCompare, TellsAnotherOrderOfTheSameKeys) {
  State current = one_set();
  current.sets[0].fingerprint = "aaaa000000000002";
  current.sets[0].key_fingerprint = "bbbb000000000002";
  EXPECT_THAT(
      compared(one_set(), current).errors,
      ElementsAre(AllOf(HasSubstr("the same keys, but in another order or with other labels"),
                        HasSubstr("number_like=OLD"), HasSubstr("accept changed data"))));
  EXPECT_THAT(compared(one_set(), current, true).errors, IsEmpty());
}

TEST(StateCompare, AnotherDataSetIsAnErrorEvenIfAcceptedWhenItsCountDiffers) {
  State current = one_set();
  replace_data(current.sets[0]);
  current.sets[0].sample_count = 15;
  current.sets[0].selected_count = 15;
  current.sets[0].parts.pop_back();
  current.epoch_samples = 15;
  for (const bool accept : {false, true}) {
    const StateDifferences found = compared(one_set(), current, accept);
    EXPECT_THAT(
        found.errors,
        ElementsAre("another data set: 23 samples, fingerprint aaaa000000000001 then, 15 "
                    "samples, fingerprint aaaa000000000002 now (shard-002.tar is gone); give "
                    "the data that the state was saved with, or begin anew without the "
                    "state"));
    EXPECT_THAT(found.notes, IsEmpty());
  }
}

TEST(StateCompare, AnotherDataSetOfTheSameSizeMayBeAccepted) {
  State current = one_set();
  replace_data(current.sets[0]);
  current.sets[0].parts = {{"shard-000.tar", "00000001"}, {"new.tar", "9f3a21c1"}};
  const std::string what =
      "(shard-001.tar and shard-002.tar are gone, new.tar is new, shard-000.tar has changed)";
  EXPECT_THAT(compared(one_set(), current).errors,
              ElementsAre(AllOf(HasSubstr(what), HasSubstr("accept changed data"))));
  const StateDifferences accepted = compared(one_set(), current, true);
  EXPECT_THAT(accepted.errors, IsEmpty());
  EXPECT_THAT(accepted.notes, ElementsAre(HasSubstr(what)));
}

TEST(StateCompare, CountsPartsThatAreCutInOtherGroups) {
  State saved = one_set();
  saved.sets[0].parts = {{"s0", "00000000", 2}, {"s2", "00000000", 2}};
  State current = saved;
  replace_data(current.sets[0]);
  current.sets[0].parts = {{"s0", "00000000", 3}, {"s3", "00000000", 2}};
  EXPECT_THAT(compared(saved, current).errors,
              ElementsAre(HasSubstr("(4 shards or folders then, 5 now)")));
}

TEST(StateCompare, NamesTheSetOnlyWhenThereAreSeveral) {
  State current = two_sets();
  current.sets[1].parts[0].digest = "00000001";
  EXPECT_THAT(compared(two_sets(), current).errors,
              ElementsAre(StartsWith("set b: shard-000.tar has changed")));
}

TEST(StateCompare, WantsTheSameSets) {
  EXPECT_THAT(compared(two_sets(), one_set()).errors,
              ElementsAre(HasSubstr("the number of sets was 2 (a and b) and is 1 (train)")));
  State current = two_sets();
  std::swap(current.sets[0], current.sets[1]);
  EXPECT_THAT(compared(two_sets(), current).errors,
              ElementsAre(StartsWith("set 1 was a and is b; give the same sets")));
}

TEST(StateCompare, WantsTheSameSettingsAndGivesBothValues) {
  State current = one_set();
  current.seed = 0;
  current.shuffle = Shuffle::kWindow;
  current.chunk_samples = 64;
  current.window_samples = 4096;
  current.epoch_samples = 20;
  current.sets[0].subset = "keys cat*";
  EXPECT_THAT(
      compared(one_set(), current).errors,
      ElementsAre(
          "seed was 7 and is 0; give seed 7, or begin anew without the state",
          HasSubstr("shuffle was global and is window (chunks of 64, windows of 4096 samples)"),
          HasSubstr("epoch_samples was 23 and is 20; give epoch_samples 23"),
          HasSubstr("subset was all and is keys cat*; give subset all")));
  current = one_set();
  current.sets[0].repeat = 3;
  current.epoch_samples = 69;
  EXPECT_THAT(compared(one_set(), current).errors, ElementsAre(HasSubstr("repeat was 1 and is 3")));
}

TEST(StateCompare, WindowsOfOtherSizesAreOtherOrders) {
  State saved = one_set();
  saved.shuffle = Shuffle::kWindow;
  saved.chunk_samples = 64;
  saved.window_samples = 4096;
  State current = saved;
  current.chunk_samples = 32;
  EXPECT_THAT(compared(saved, current).errors,
              ElementsAre(AllOf(HasSubstr("chunks of 64"), HasSubstr("chunks of 32"))));
}

TEST(StateCompare, ASubsetOfAnotherLengthIsAnError) {
  State current = one_set();
  current.sets[0].selected_count = 20;
  current.epoch_samples = 20;
  EXPECT_THAT(compared(one_set(), current).errors,
              ElementsAre(HasSubstr("subset all had 23 samples and has 20")));
}

TEST(StateCompare, WeightsMayChange) {
  const StateDifferences found = compared(two_sets(0.7, 0.3), two_sets(0.7, 0.5));
  EXPECT_THAT(found.errors, IsEmpty());
  EXPECT_THAT(found.notes, ElementsAre("weight of set b was 0.3 and is 0.5, from here on"));
}

TEST(StateCompare, SetsOfAMixMayComeAndGo) {
  State current = two_sets(0.7, 0.3);
  current.sets[1].name = "c";
  const StateDifferences found = compared(two_sets(0.7, 0.3), current);
  EXPECT_THAT(found.errors, IsEmpty());
  EXPECT_THAT(found.notes,
              ElementsAre("set c is new, from here on", "set b is gone, from here on"));
  State turned = two_sets(0.7, 0.3);
  std::swap(turned.sets[0], turned.sets[1]);
  EXPECT_THAT(compared(two_sets(0.7, 0.3), turned).notes, ElementsAre(HasSubstr("another order")));
}

TEST(StateCompare, AMixIsNotAChain) {
  EXPECT_THAT(compared(two_sets(), two_sets(0.7, 0.3)).errors,
              ElementsAre(HasSubstr("set a: weight was none and is 0.7"),
                          HasSubstr("set b: weight was none and is 0.3")));
  EXPECT_THAT(compared(two_sets(0.7, 0.3), two_sets()).errors,
              ElementsAre(HasSubstr("give weight 0.7"), HasSubstr("give weight 0.3")));
}

TEST(StateCompare, RefusesWhatNoLoaderSaves) {
  State saved = one_set();
  saved.position = 24;
  EXPECT_THAT(compared(saved, one_set()).errors,
              ElementsAre(HasSubstr("position 24 is behind the end of the epoch, 23 samples")));
  saved = one_set();
  saved.position = 23;
  EXPECT_THAT(compared(saved, one_set()).errors, IsEmpty());
  saved.epoch = ~std::uint64_t{0};
  EXPECT_THAT(compared(saved, one_set()).errors,
              ElementsAre(HasSubstr("epoch 18446744073709551615 is not below 2^40")));
  saved = two_sets(0.5, 0.5);
  saved.origin = {1, 0, {0, 0}};
  EXPECT_THAT(compared(saved, two_sets(0.5, 0.5)).errors,
              ElementsAre(HasSubstr("origin, epoch 1 position 0, is behind epoch 0 position 0")));
}

TEST(StateCompare, NotesWhatChangesTheDelivery) {
  State current = one_set();
  current.batch_size = 128;
  current.world_size = 4;
  current.last_batch = "pad";
  current.pipeline = "imagenet-val";
  current.on_error = "zero";
  const StateDifferences found = compared(one_set(), current);
  EXPECT_THAT(found.errors, IsEmpty());
  EXPECT_THAT(found.notes,
              ElementsAre("pipeline was imagenet-train and is imagenet-val",
                          "on_error was raise and is zero", "batch_size was 256 and is 128",
                          "world_size was 1 and is 4", "last_batch was drop and is pad"));
}

TEST(StateCompare, ReportsAllThatAppliesInOrder) {
  State current = two_sets();
  current.sets[0].parts[0].digest = "00000001";
  replace_data(current.sets[1]);
  current.seed = 1;
  EXPECT_THAT(compared(two_sets(), current).errors,
              ElementsAre(StartsWith("set a: shard-000.tar"), StartsWith("set b: another data set"),
                          StartsWith("seed was 7")));
}

TEST(StateCompare, MakesForeignTextPrintable) {
  State saved = one_set();
  saved.pipeline = "a\nb";
  EXPECT_THAT(compared(saved, one_set()).notes,
              ElementsAre(AllOf(HasSubstr("a\\x0ab"), Not(HasSubstr("\n")))));
}

}  // namespace
}  // namespace feedrace::order
