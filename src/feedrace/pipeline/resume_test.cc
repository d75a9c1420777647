// SPDX-License-Identifier: Apache-2.0
// A loader stopped anywhere goes on as if it had not, with other threads, ranks, batches, formats.
#include "feedrace/pipeline/resume.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/pipeline/open_sets.h"
#include "feedrace/pipeline/subset.h"
#include "feedrace/pipeline/test_sets.h"
#include "feedrace/pipeline/test_synthetic_set.h"

namespace feedrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// What stood at each position of an epoch: sample, label, flag, pixels.
struct Place {
  std::uint64_t sample;
  std::int64_t label;
  SampleFlag flag;
  std::string pixels;

  friend bool operator==(const Place&, const Place&) = default;
};

void PrintTo(const Place& place, std::ostream* out) {  // NOLINT: GoogleTest looks for this name.
  *out << place.sample << (place.flag == SampleFlag::kReal ? "" : "*");
}

void append(std::vector<Place>& places, const Batch& batch) {
  const Seen seen = remember(batch);
  const std::size_t bytes = seen.pixels.size() / batch.size();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    places.push_back(
        {seen.indices[i], seen.labels[i], seen.flags[i], seen.pixels.substr(i * bytes, bytes)});
  }
}

std::vector<Place> rest_of_epoch(Loader& loader) {
  std::vector<Place> places;
  while (const auto batch = loader.next()) append(places, *batch);
  return places;
}

std::string refusal(Loader& loader, const std::string& state) {
  try {
    loader.load_state(state);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "the state was taken";
  return "";
}

/// The folder of `write_folder` as shards whose keys are "class/name".
std::string pack(const testing::TempDir& dir, int count, int shards, bool backwards = false) {
  std::vector<int> order;
  for (int label = 0; label < kTestClasses; ++label) {
    for (int i = label; i < count; i += kTestClasses) order.push_back(i);
  }
  if (backwards) std::reverse(order.begin(), order.end());
  const int per_shard = (count + shards - 1) / shards;
  const std::string name = backwards ? "backwards" : "packed";
  for (int shard = 0; shard < shards; ++shard) {
    std::string tar;
    for (int at = shard * per_shard; at < std::min(count, (shard + 1) * per_shard); ++at) {
      const int i = order[static_cast<std::size_t>(at)];
      const std::string key = fmt::format("c{}/{}", i % kTestClasses, test_key(i));
      tar += testing::tar_member(key + ".jpg", test_jpeg(i));
      tar += testing::tar_member(key + ".cls", std::to_string(i % kTestClasses));
    }
    dir.write(fmt::format("{}/{:02}.tar", name, shard), tar + testing::tar_end());
  }
  return dir / name;
}

TEST(Resume, GoesOnAfterEachBatchInAFreshLoader) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 21));
  options.batch_size = 4;
  Loader unbroken(options);
  const std::vector<Place> first = rest_of_epoch(unbroken);
  const std::vector<Place> second = rest_of_epoch(unbroken);
  ASSERT_THAT(first, SizeIs(20));
  for (std::size_t stop = 0; stop <= 5; ++stop) {
    Loader stopped(options);
    std::vector<Place> places;
    for (std::size_t i = 0; i < stop; ++i) append(places, *stopped.next());
    options.thread_count = 1 + stop % 3;
    options.prefetch_factor = 1 + stop;
    Loader next(options);
    EXPECT_THAT(next.load_state(stopped.state()), IsEmpty());
    if (stop == 5) {  // Behind the last batch: no empty epoch, no repeated one.
      EXPECT_EQ(next.epoch(), 1u);
      EXPECT_EQ(rest_of_epoch(next), second);
      continue;
    }
    for (const Place& place : rest_of_epoch(next)) places.push_back(place);
    EXPECT_EQ(places, first) << stop;
    EXPECT_EQ(rest_of_epoch(next), second) << stop;
  }
}

TEST(Resume, SeveralTimesInOneEpochAndWhileBatchesAreReadAhead) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 30));
  options.batch_size = 2;
  options.prefetch_factor = 6;
  Loader unbroken(options);
  const std::vector<Place> expected = rest_of_epoch(unbroken);
  std::vector<Place> places;
  std::string state;
  for (const std::size_t batches : {5, 3, 4, 3}) {
    Loader loader(options);
    if (!state.empty()) loader.load_state(state);
    for (std::size_t i = 0; i < batches; ++i) append(places, *loader.next());
    state = loader.state();
  }
  EXPECT_EQ(places, expected);
}

TEST(Resume, StatesAroundABatchDoNotCountLaterOnes) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 24));
  Loader loader(options);
  const std::string begin = loader.state();
  const auto first = loader.next();
  const std::string after_first = loader.state();
  const auto second = loader.next();
  const auto third = loader.next();
  EXPECT_EQ(loader.state_after(*first), after_first);
  EXPECT_EQ(loader.state_after(*third), loader.state());
  EXPECT_THAT(loader.state(), HasSubstr("\"epoch\":1"));  // Three batches were the epoch.
  EXPECT_NE(loader.state_after(*second), loader.state());
  EXPECT_EQ(loader.state_before(*first), begin);
  EXPECT_EQ(loader.state_before(*second), after_first);
}

TEST(Resume, KeepsThePositionWhenItsEpochIsSet) {
  const testing::TempDir dir;
  const LoaderOptions options = small_options(write_folder(dir, 40));
  Loader stopped(options);
  stopped.set_epoch(3);
  stopped.next();
  stopped.next();
  const std::string state = stopped.state();
  const std::vector<Place> rest = rest_of_epoch(stopped);
  Loader same(options);
  same.load_state(state);
  same.set_epoch(3);  // As trainers do.
  EXPECT_EQ(rest_of_epoch(same), rest);
  Loader anew(options);
  anew.load_state(state);
  anew.set_epoch(2);
  EXPECT_THAT(rest_of_epoch(anew), SizeIs(40));
  anew.set_epoch(3);
  anew.next();
  anew.set_epoch(3);  // Now it begins anew.
  EXPECT_THAT(rest_of_epoch(anew), SizeIs(40));
  EXPECT_THROW(anew.set_epoch(static_cast<std::uint64_t>(-1)), Error);
}

TEST(Resume, WithAnotherBackendBatchSizeAndFormat) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 36);
  LoaderOptions options = small_options(folder);
  options.batch_size = 6;
  Loader unbroken(options);
  const std::vector<Place> expected = rest_of_epoch(unbroken);
  for (const char* backend : {"buffered", "uring"}) {
    for (const std::string& source : {folder, pack(dir, 36, 5)}) {
      for (const std::size_t batch_size : {1, 3, 8}) {
        Loader stopped(options);
        std::vector<Place> places;
        for (int i = 0; i < 2; ++i) append(places, *stopped.next());
        LoaderOptions other = options;
        other.sources = {source};
        other.backend = backend;
        other.batch_size = batch_size;
        other.last_batch = LastBatch::kPartial;
        Loader loader(other);
        const std::vector<std::string> notes = loader.load_state(stopped.state());
        EXPECT_THAT(notes, Contains(HasSubstr("batch_size was 6")));
        if (source != folder) {
          EXPECT_THAT(notes, Contains(HasSubstr("fingerprint")));
        }
        for (const Place& place : rest_of_epoch(loader)) places.push_back(place);
        EXPECT_EQ(places, expected) << source << ", " << batch_size;
      }
    }
  }
}

TEST(Resume, OverShardsInAnotherOrderAsksForTheOldNumbers) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 30);
  LoaderOptions options = small_options(folder);
  Loader stopped(options);
  append(*std::make_unique<std::vector<Place>>(), *stopped.next());
  const std::string state = stopped.state();
  const std::vector<Place> rest = rest_of_epoch(stopped);
  options.sources = {pack(dir, 30, 3, /*backwards=*/true)};
  Loader other(options);
  EXPECT_THAT(refusal(other, state), HasSubstr("number_like"));
  options.number_like = {folder};
  Loader renumbered(options);
  renumbered.load_state(state);
  EXPECT_EQ(rest_of_epoch(renumbered), rest);
}

/// All ranks of a world, one after the other, each delivering its places of the global batches.
std::vector<Place> run_world(LoaderOptions options, std::uint64_t ranks, std::uint64_t batches,
                             std::string state, std::string* state_behind) {
  std::vector<std::vector<Place>> global;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    options.rank = rank;
    options.world_size = ranks;
    Loader loader(options);
    if (!state.empty()) loader.load_state(state);
    for (std::uint64_t i = 0; batches == 0 || i < batches; ++i) {
      const auto batch = loader.next();
      if (!batch) break;
      if (global.size() <= i) global.resize(i + 1);
      append(global[i], *batch);
    }
    if (!state_behind) continue;
    if (rank > 0) {
      EXPECT_EQ(loader.state(), *state_behind);
    }
    *state_behind = loader.state();
  }
  std::vector<Place> places;
  for (const auto& batch : global) places.insert(places.end(), batch.begin(), batch.end());
  return places;
}

TEST(Ranks, GiveTheSameGlobalBatchesInAnyWorldAndGoOnInAnother) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 60));
  options.thread_count = 1;
  options.last_batch = LastBatch::kPad;
  options.batch_size = 24;
  Loader alone(options);
  const std::vector<Place> expected = rest_of_epoch(alone);
  ASSERT_THAT(expected, SizeIs(60));
  for (const std::uint64_t ranks : {2, 3, 4, 8}) {
    options.batch_size = 24 / ranks;
    std::vector<Place> places = run_world(options, ranks, 0, "", nullptr);
    // 12 samples are left for the last batch, which 8 ranks pad to 16.
    ASSERT_GE(places.size(), 60u);
    for (std::size_t i = 60; i < places.size(); ++i) {
      EXPECT_EQ(places[i].flag, SampleFlag::kPadded);
    }
    places.resize(60);
    EXPECT_EQ(places, expected) << ranks;
  }
  std::string state;
  options.batch_size = 5;
  std::vector<Place> places = run_world(options, 3, 2, "", &state);
  options.batch_size = 2;
  for (const Place& place : run_world(options, 4, 1, state, &state)) places.push_back(place);
  options.batch_size = 11;
  for (const Place& place : run_world(options, 2, 0, state, nullptr)) places.push_back(place);
  EXPECT_EQ(places, expected);
}

TEST(Ranks, ComeWithAPlanThatSaysWhoGetsWhat) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 23));
  options.rank = 1;
  options.world_size = 3;
  options.batch_size = 4;
  options.last_batch = LastBatch::kPad;
  const Loader loader(options);
  EXPECT_EQ(loader.plan().steps, 2u);
  EXPECT_EQ(loader.plan().samples_a_rank, 8u);
  EXPECT_EQ(loader.plan().padded_samples, 1u);
  EXPECT_THAT(loader.plan().to_text(),
              AllOf(HasSubstr("2 batches of 4 on each of 3 ranks"), HasSubstr("1 repeated"),
                    HasSubstr("1 of 3, from arguments"), HasSubstr("8 samples an epoch")));
  options.last_batch = LastBatch::kPartial;
  EXPECT_THROW(Loader{options}, Error);
  options.pipeline = Pipeline::recipe("imagenet-val");
  options.last_batch.reset();
  EXPECT_EQ(Loader(options).plan().last_batch, LastBatch::kPad);
}

TEST(Ranks, ThatDifferAreFoundAtTheStart) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 23));
  options.world_size = 2;
  options.rank = 1;
  RankCheck check;
  check.all_gather = [&](const std::string& own) {
    std::string other = own;
    const auto at = other.find("\"seed\",\"0\"");
    EXPECT_NE(at, std::string::npos) << own;
    other.replace(at, 10, "\"seed\",\"9\"");
    const auto rank = other.find("\"rank\":1");
    EXPECT_NE(rank, std::string::npos) << own;
    other.replace(rank, 8, "\"rank\":0");
    return std::vector<std::string>{other, own};
  };
  options.rank_check = check;
  try {
    const Loader loader(options);
    FAIL() << "ranks with different seeds began";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("seed"), HasSubstr("9 on rank 0"), HasSubstr("0 on rank 1")));
  }
}

TEST(Ranks, OfWhichOneLoadedNoStateAreFoundAtTheFirstBatch) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 40));
  options.thread_count = 1;
  options.batch_size = 4;
  options.world_size = 2;
  options.rank = 0;
  Loader stopped(options);
  stopped.next();
  const std::string state = stopped.state();
  options.rank_check = RankCheck{dir / "ranks", {}, 60};
  std::vector<std::string> errors(2);
  std::vector<std::thread> ranks;
  for (const std::uint64_t rank : {0, 1}) {
    ranks.emplace_back([&, rank] {
      LoaderOptions own = options;
      own.rank = rank;
      try {
        Loader loader(own);
        if (rank == 0) loader.load_state(state);
        loader.next();
      } catch (const Error& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("position of the next batch"), HasSubstr("8 on rank 0"),
                                 HasSubstr("0 on rank 1"))));
}

TEST(Sets, OneAfterAnotherKeepTheirOwnLabelsAndGoOn) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 12);
  dir.write("other/c1/x.jpg", test_jpeg(50));
  dir.write("other/d/y.jpg", test_jpeg(51));
  LoaderOptions options = small_options(folder);
  options.sources.clear();
  options.sets.resize(2);
  options.sets[0].sources = {folder};
  options.sets[0].repeat = 2;
  options.sets[1].sources = {dir / "other"};
  options.batch_size = 1;
  Loader unbroken(options);
  EXPECT_EQ(unbroken.plan().epoch_samples, 26u);
  const std::vector<Place> expected = rest_of_epoch(unbroken);
  ASSERT_THAT(expected, SizeIs(26));
  std::map<std::uint64_t, int> counts;
  for (std::size_t i = 0; i < 26; ++i) {
    ++counts[expected[i].sample];
    EXPECT_EQ(expected[i].sample >= 12, i >= 24);
  }
  for (const auto& [sample, count] : counts) EXPECT_EQ(count, sample < 12 ? 2 : 1);
  for (const Place& place : expected) {
    if (place.sample >= 12) {  // Classes of the union: c0 c1 c2 d.
      EXPECT_EQ(place.label, place.sample == 12 ? 1 : 3);
    }
  }
  Loader stopped(options);
  std::vector<Place> places;
  for (int i = 0; i < 17; ++i) append(places, *stopped.next());
  const auto state = nlohmann::json::parse(stopped.state());
  EXPECT_EQ(state["sets"][0]["position"], 17);
  EXPECT_EQ(state["sets"][1]["position"], 0);
  Loader next(options);
  next.load_state(stopped.state());
  for (const Place& place : rest_of_epoch(next)) places.push_back(place);
  EXPECT_EQ(places, expected);
}

TEST(Sets, MixedByWeightGoOnWithOtherWeightsFromTheirOwnPositions) {
  const testing::TempDir dir;
  LoaderOptions options = small_options("");
  options.sources.clear();
  options.batch_size = 2;
  for (const char* name : {"a", "b"}) {
    for (int i = 0; i < 10; ++i) {
      dir.write(fmt::format("{}/c/{}.jpg", name, i), test_jpeg(i));
    }
    DataSource source;
    source.name = name;
    source.sources = {dir / name};
    source.weight = 1;
    options.sets.push_back(source);
  }
  Loader stopped(options);
  std::map<bool, std::vector<std::uint64_t>> before;
  for (int i = 0; i < 4; ++i) {
    const auto batch = stopped.next();
    for (const std::uint64_t sample : batch->indices) before[sample >= 10].push_back(sample);
  }
  EXPECT_THAT(before[false], SizeIs(4));
  options.sets[1].weight = 5;
  Loader changed(options);
  EXPECT_THAT(changed.load_state(stopped.state()), Contains(HasSubstr("weight")));
  std::map<bool, std::vector<std::uint64_t>> after;
  while (const auto batch = changed.next()) {
    for (const std::uint64_t sample : batch->indices) after[sample >= 10].push_back(sample);
  }
  EXPECT_THAT(after[false], SizeIs(2));
  EXPECT_THAT(after[true], SizeIs(10));
  // No sample of b a second time before each has come once.
  std::vector<std::uint64_t> pass = before[true];
  pass.insert(pass.end(), after[true].begin(), after[true].begin() + 6);
  std::sort(pass.begin(), pass.end());
  EXPECT_EQ(std::unique(pass.begin(), pass.end()) - pass.begin(), 10);
  // The state of the changed mix goes on as well.
  Loader again(options);
  EXPECT_THAT(again.load_state(changed.state()), IsEmpty());
  EXPECT_EQ(rest_of_epoch(again), rest_of_epoch(changed));
}

TEST(Resume, ReplacesTheSameSamplesInAnyWorldAndSubset) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 48);
  for (const int bad : {3, 7, 20, 31}) {
    dir.write(fmt::format("folder/c{}/{}.jpg", bad % kTestClasses, test_key(bad)), "no picture");
  }
  LoaderOptions options = small_options(folder);
  options.on_error = OnError::kReplace;
  options.subset.share = {0, 0.8};
  options.last_batch = LastBatch::kPad;
  options.batch_size = 12;
  Loader alone(options);
  const std::vector<Place> expected = rest_of_epoch(alone);
  const auto replaced = std::count_if(expected.begin(), expected.end(), [](const Place& place) {
    return place.flag == SampleFlag::kSubstituted;
  });
  EXPECT_GT(replaced, 0);
  EXPECT_EQ(alone.stats().substituted_samples, static_cast<std::uint64_t>(replaced));
  const auto chosen = choose_subset(alone.dataset(), options.subset);
  for (const Place& place : expected) {
    bool is_member = false;
    for (std::uint64_t i = 0; i < chosen.selection.size(); ++i) {
      is_member = is_member || chosen.selection.sample(i) == place.sample;
    }
    EXPECT_TRUE(is_member) << place.sample;
  }
  options.batch_size = 3;
  std::string state;
  std::vector<Place> places = run_world(options, 4, 2, "", nullptr);
  Loader stopped(options = [&] {
    LoaderOptions first = options;
    first.rank = 0;
    first.world_size = 4;
    return first;
  }());
  stopped.next();
  stopped.next();
  options.batch_size = 4;
  for (const Place& place : run_world(options, 3, 0, stopped.state(), nullptr)) {
    places.push_back(place);
  }
  places.resize(expected.size());
  EXPECT_EQ(places, expected);
}

/// A set that begins with four bad samples, two a batch: c0 is 000 003 006 009 012 015 018.
LoaderOptions first_four_bad(const testing::TempDir& dir) {
  LoaderOptions options = small_options(write_folder(dir, 20));
  for (const int bad : {0, 3, 6, 9}) {
    dir.write("folder/c0/" + test_key(bad) + ".jpg", "no picture");
  }
  options.shuffle = Shuffle::kNone;
  options.on_error = OnError::kZero;
  options.batch_size = 2;
  return options;
}

TEST(Resume, CountsTheBudgetOfAnEpochAcrossAStop) {
  const testing::TempDir dir;
  LoaderOptions options = first_four_bad(dir);
  options.last_batch = LastBatch::kPartial;
  options.error_budget = 3;
  Loader stopped(options);
  stopped.next();
  Loader next(options);
  next.load_state(stopped.state());
  EXPECT_THROW(next.next(), Error);
}

TEST(Resume, CountsABatchThatIsTakenTwiceOnce) {
  const testing::TempDir dir;
  LoaderOptions options = first_four_bad(dir);
  options.error_budget = 4;
  Loader loader(options);
  const auto first = loader.next();
  const std::string behind = loader.state();
  const auto second = loader.next();
  EXPECT_EQ(second->bad_samples, 2U);
  EXPECT_EQ(second->epoch_bad_samples, 4U);
  EXPECT_EQ(loader.state_after(*first), behind);
  EXPECT_EQ(loader.state_before(*second), behind);
  for (int i = 0; i < 3; ++i) {
    loader.load_state(loader.state_before(*second));
    EXPECT_EQ(loader.next()->epoch_bad_samples, 4U);
  }
}

TEST(Resume, NamesWhatDiffers) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 23);
  const std::string shards = pack(dir, 23, 3);
  LoaderOptions options = small_options(shards);
  options.seed = 7;
  options.batch_size = 4;
  Loader stopped(options);
  stopped.next();
  const std::string state = stopped.state();
  {
    LoaderOptions other = options;
    other.seed = 8;
    Loader loader(other);
    const std::vector<Place> untouched = rest_of_epoch(loader);
    EXPECT_THAT(refusal(loader, state), AllOf(HasSubstr("seed was 7"), HasSubstr("8")));
    loader.set_epoch(0);
    EXPECT_EQ(rest_of_epoch(loader), untouched);  // Nothing has changed.
  }
  {
    LoaderOptions other = options;
    other.shuffle = Shuffle::kWindow;
    Loader loader(other);
    EXPECT_THAT(refusal(loader, state), AllOf(HasSubstr("global"), HasSubstr("window")));
  }
  {
    LoaderOptions other = options;
    other.subset.key_pattern = "c1*";
    Loader loader(other);
    EXPECT_THAT(refusal(loader, state), HasSubstr("subset"));
  }
  {
    dir.write("packed/01.tar", testing::read_file(dir / "packed/01.tar") + std::string(512, '\0'));
    Loader loader(options);
    EXPECT_THAT(refusal(loader, state), AllOf(HasSubstr("01.tar"), HasSubstr("changed")));
    const auto notes = loader.load_state(state, /*accept_changed_data=*/true);
    EXPECT_THAT(notes, Contains(HasSubstr("01.tar")));
  }
  {
    std::filesystem::remove(dir / "packed/02.tar");
    Loader loader(options);
    EXPECT_THAT(refusal(loader, state), AllOf(HasSubstr("02.tar"), HasSubstr("gone")));
    EXPECT_THROW(loader.load_state(state, /*accept_changed_data=*/true), Error);
  }
}

TEST(Resume, RefusesStatesThatAreNone) {
  const testing::TempDir dir;
  Loader loader(small_options(write_folder(dir, 20)));
  const std::string state = loader.state();
  EXPECT_THAT(refusal(loader, ""), HasSubstr("state"));
  EXPECT_THAT(refusal(loader, state.substr(0, state.size() / 2)), HasSubstr("cut short"));
  auto edited = nlohmann::ordered_json::parse(state);
  edited["seed"] = 5;
  EXPECT_THAT(refusal(loader, edited.dump()), HasSubstr("edited"));
  edited["version"] = 2;
  EXPECT_THAT(refusal(loader, edited.dump()), HasSubstr("version 2"));
}

TEST(Resume, WithTooFewSamplesLeftBeginsTheNextEpochAndSaysSo) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 20));
  options.batch_size = 4;
  Loader stopped(options);
  for (int i = 0; i < 4; ++i) stopped.next();
  options.batch_size = 10;
  Loader next(options);
  EXPECT_THAT(next.load_state(stopped.state()), Contains(HasSubstr("4 samples were left")));
  EXPECT_EQ(next.epoch(), 1u);
  EXPECT_THAT(rest_of_epoch(next), SizeIs(20));
}

TEST(Resume, CostsTheSameAtAnyPositionOfASetOfAnySize) {
  constexpr std::uint64_t kSamples = 10'000'000'000'000;
  LoaderOptions options = small_options("");
  options.sources.clear();
  options.dataset = std::make_shared<SyntheticSet>(kSamples);
  options.batch_size = 1000;
  Loader loader(options);
  const std::string start = loader.state();
  loader.load_state(SyntheticSet::state_at(start, 2, 1'000'000'000'000));
  EXPECT_LT(loader.state().size(), 2000u);
  const auto batch = loader.next();
  EXPECT_EQ(batch->position, 1'000'000'000'000u);
  EXPECT_EQ(batch->step, 1'000'000'000u);
  EXPECT_EQ(batch->epoch, 2u);
  EXPECT_THAT(loader.state(), HasSubstr("\"position\":1000000001000"));
}

TEST(Shuffle, FollowsRecipeAndSchemeOfTheSource) {
  LoaderOptions options;
  options.sources = {"/data/train"};
  EXPECT_EQ(default_shuffle(options), Shuffle::kGlobal);
  options.sources = {"s3://bucket/train-{000..499}.tar"};
  EXPECT_EQ(default_shuffle(options), Shuffle::kWindow);
  options.pipeline = Pipeline::recipe("imagenet-val");
  EXPECT_EQ(default_shuffle(options), Shuffle::kNone);
  options.pipeline = Pipeline::recipe("imagenet-train");
  options.sources.clear();
  options.sets.resize(2);
  options.sets[1].sources = {"https://host/a.tar"};
  EXPECT_EQ(default_shuffle(options), Shuffle::kWindow);
}

TEST(Sets, AreRefusedWhenTheyAreMixedUp) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 6);
  LoaderOptions options = small_options(folder);
  options.sets.resize(2);
  EXPECT_THROW(open_sets(options), Error);  // Both sources and sets.
  options.sources.clear();
  options.sets[0].sources = {folder};
  options.sets[1].sources = {folder};
  try {
    open_sets(options);
    FAIL() << "two sets of one name were taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("name of its own"));
  }
  options.sets[1].name = "again";
  EXPECT_THAT(open_sets(options).sets, SizeIs(2));
  options.sets[1].repeat = 0;
  EXPECT_THROW(open_sets(options), Error);
}

}  // namespace
}  // namespace feedrace::pipeline
