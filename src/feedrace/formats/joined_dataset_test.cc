// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/joined_dataset.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/formats/test_dataset.h"
#include "feedrace/formats/test_tar.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

using feedrace::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::listed_dataset;
using testing::TarText;

std::string error_of(std::vector<NamedSet> sets) {
  try {
    join(std::move(sets));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

std::vector<std::string> parts_of(const Dataset& set) {
  std::vector<std::string> lines;
  for (const Part& part : set.parts()) {
    lines.push_back(fmt::format("{} {} {}", part.name, part.first_sample, part.digest));
  }
  return lines;
}

TEST(JoinedDataset, PutsOneSetBehindTheOther) {
  const auto one = listed_dataset({{"a", 5}, {"b", 6}});
  const auto none = listed_dataset({});
  const auto two = listed_dataset({{"a", 7}, {"c", 8, false}, {"d", -1}});
  one->shard_paths = {"/data/x.tar", "/data/y.tar"};
  two->shard_paths = {"/data/x.tar"};
  const auto joined = join({{"one", one}, {"none", none}, {"two", two}});
  ASSERT_EQ(joined->size(), 5u);
  EXPECT_EQ(joined->set_count(), 3u);
  EXPECT_EQ(joined->set_name(2), "two");
  EXPECT_EQ(joined->first_sample(0), 0u);
  EXPECT_EQ(joined->first_sample(1), 2u);
  EXPECT_EQ(joined->first_sample(2), 2u);
  EXPECT_EQ(joined->first_sample(3), 5u);
  std::vector<std::size_t> sets;
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < joined->size(); ++i) {
    sets.push_back(joined->set_of(i));
    keys.push_back(joined->key(i));
  }
  EXPECT_THAT(sets, ElementsAre(0u, 0u, 2u, 2u, 2u));
  EXPECT_THAT(keys, ElementsAre("a", "b", "a", "c", "d"));
  EXPECT_THAT(joined->shards(), ElementsAre("/data/x.tar", "/data/y.tar", "/data/x.tar"));
  EXPECT_EQ(joined->place(1).shard, 0u);
  EXPECT_EQ(joined->place(1).offset_bytes, 512u);
  EXPECT_EQ(joined->place(3).shard, 2u);
  EXPECT_EQ(joined->place(3).offset_bytes, 512u);
  EXPECT_EQ(joined->place(3).size_bytes, 11u);
  EXPECT_EQ(joined->path(4), "/data/d");
  EXPECT_EQ(joined->where(4), "at d");
  EXPECT_EQ(*joined->label(1), 6);
  EXPECT_EQ(*joined->label(2), 7);
  EXPECT_EQ(joined->label(3).error().message, "at c: no label");
  EXPECT_EQ(*joined->label(4), -1);
  EXPECT_THAT(joined->classes(), IsEmpty());
}

TEST(JoinedDataset, LeavesFilesOfTheirOwnWithoutAShard) {
  const auto files = listed_dataset({{"a"}});
  const auto packed = listed_dataset({{"b"}});
  packed->shard_paths = {"/data/x.tar"};
  const auto joined = join({{"packed", packed}, {"files", files}});
  EXPECT_EQ(joined->place(0).shard, 0u);
  EXPECT_EQ(joined->place(1).shard, Place::kOwnFile);
}

TEST(JoinedDataset, NumbersTheUnionOfAllClassNames) {
  const auto pets = listed_dataset({{"1", 0}, {"2", 1}});
  pets->class_names = {"cat", "dog"};
  const auto birds = listed_dataset({{"3", 0}, {"4", 1}, {"5", 2}, {"6", -1}, {"7", 0, false}});
  birds->class_names = {"bee", "dog"};
  const auto joined = join({{"pets", pets}, {"birds", birds}});
  EXPECT_THAT(joined->classes(), ElementsAre("bee", "cat", "dog"));
  std::vector<std::int64_t> labels;
  for (std::uint64_t i = 0; i < 4; ++i) labels.push_back(*joined->label(i));
  EXPECT_THAT(labels, ElementsAre(1, 2, 0, 2));
  EXPECT_THAT(joined->label(4).error().message,
              HasSubstr("at 5: label 2 is none of the set's 2 classes"));
  EXPECT_EQ(*joined->label(5), -1) << "no label stays none";
  EXPECT_FALSE(joined->label(6));
  EXPECT_THAT(joined->warnings(),
              ElementsAre(HasSubstr("pets: labels are not the set's own: the classes of all sets, "
                                    "3 by name, are numbered anew, such as cat from 0 to 1"),
                          HasSubstr("birds: labels are not the set's own: the classes of all sets, "
                                    "3 by name, are numbered anew, such as dog from 1 to 2")));
}

TEST(JoinedDataset, SaysNothingWhereClassNumbersStay) {
  const auto one = listed_dataset({{"1", 1}});
  one->class_names = {"a", "b"};
  one->notices = {"left out: x"};
  const auto two = listed_dataset({{"2", 0}});
  two->class_names = {"a"};
  const auto joined = join({{"one", one}, {"t\nwo", two}});
  EXPECT_THAT(joined->warnings(), ElementsAre("one: left out: x"));
  EXPECT_EQ(*joined->label(0), 1);
}

TEST(JoinedDataset, RefusesNamesBesideBareNumbers) {
  const auto named = listed_dataset({{"1", 0}});
  named->class_names = {"a"};
  named->label_source_text = "class folders";
  const auto bare = listed_dataset({{"2", 0}});
  EXPECT_THAT(error_of({{"first", named}, {"second", bare}}),
              HasSubstr("data sets first and second: first names its classes (labels: class "
                        "folders) and second has only numbers (labels: list)"));
  EXPECT_THAT(error_of({{"second", bare}, {"first", named}}), HasSubstr("; give all as "));
  EXPECT_THAT(error_of({}), HasSubstr("none given"));
  EXPECT_THAT(error_of({{"gone", nullptr}}), HasSubstr("data set gone"));
}

TEST(JoinedDataset, FingerprintsFollowTheSetsAndNotTheirNames) {
  const auto one = listed_dataset({{"1"}});
  const auto two = listed_dataset({{"2"}});
  two->fingerprint_text = "g";
  two->key_fingerprint_text = "l";
  two->key_set_text = "t";
  const auto joined = join({{"a", one}, {"b", two}});
  const auto renamed = join({{"x", one}, {"y", two}});
  const auto turned = join({{"b", two}, {"a", one}});
  EXPECT_EQ(joined->fingerprint().size(), 16u);
  EXPECT_EQ(renamed->fingerprint(), joined->fingerprint());
  EXPECT_EQ(renamed->key_fingerprint(), joined->key_fingerprint());
  EXPECT_NE(turned->fingerprint(), joined->fingerprint());
  EXPECT_NE(turned->key_fingerprint(), joined->key_fingerprint());
  EXPECT_EQ(turned->key_set_fingerprint(), joined->key_set_fingerprint());
  two->key_fingerprint_text = "m";
  two->key_set_text = "";
  const auto other = join({{"a", one}, {"b", two}});
  EXPECT_NE(other->key_fingerprint(), joined->key_fingerprint());
  EXPECT_EQ(other->fingerprint(), joined->fingerprint());
  EXPECT_EQ(other->key_set_fingerprint(), "");
  two->key_fingerprint_text = "";
  EXPECT_EQ(join({{"a", one}, {"b", two}})->key_fingerprint(), "");
}

TEST(JoinedDataset, FingerprintsFollowNumbersThatAnotherSetShifts) {
  const auto one = listed_dataset({{"1", 0}});
  const auto two = listed_dataset({{"2", 0}});
  one->class_names = {"a"};
  two->class_names = {"z"};
  const auto before = join({{"one", one}, {"two", two}});
  one->class_names = {"a", "b"};  // Without samples: no fingerprint of its own has to change.
  const auto after = join({{"one", one}, {"two", two}});
  EXPECT_EQ(*before->label(1), 1);
  EXPECT_EQ(*after->label(1), 2);
  EXPECT_NE(after->fingerprint(), before->fingerprint());
  EXPECT_NE(after->key_fingerprint(), before->key_fingerprint());
}

TEST(JoinedDataset, NamesKindsAndLabelSourcesOnce) {
  const auto one = listed_dataset({{"1"}});
  const auto two = listed_dataset({{"2"}});
  const auto three = listed_dataset({{"3"}});
  three->kind_text = "webdataset shards";
  const auto joined = join({{"a", one}, {"b", two}, {"c", three}});
  EXPECT_EQ(joined->kind(), "3 data sets: image folder, webdataset shards");
  EXPECT_EQ(joined->label_source(), "list");
  three->label_source_text = "cls field";
  EXPECT_EQ(join({{"a", one}, {"b", two}, {"c", three}})->label_source(),
            "a: list; b: list; c: cls field");
}

TEST(JoinedDataset, KnowsSizesWhereAllSetsDo) {
  const auto one = listed_dataset({{"1"}, {"2"}, {"3"}});
  const auto two = listed_dataset({{"4"}});
  one->max_bytes = 30;
  one->mean_bytes = 20;
  two->max_bytes = 100;
  two->mean_bytes = 100;
  const auto joined = join({{"a", one}, {"b", two}});
  EXPECT_EQ(joined->max_image_bytes(), 100u);
  EXPECT_DOUBLE_EQ(joined->mean_image_bytes(), 40);
  two->max_bytes = Place::kUnknownSize;
  two->mean_bytes = 0;
  const auto unknown = join({{"a", one}, {"b", two}});
  EXPECT_EQ(unknown->max_image_bytes(), Place::kUnknownSize);
  EXPECT_EQ(unknown->mean_image_bytes(), 0);
}

TEST(JoinedDataset, HasThePartsOfAllSets) {
  const auto one = listed_dataset({{"1"}, {"2"}});
  one->part_list = {{"cat", 0, "d0"}, {"dog", 1, "d1"}};
  const auto list = listed_dataset({{"3"}});
  const auto two = listed_dataset({{"4"}});
  two->part_list = {{"x.tar", 0, "d2"}};
  EXPECT_THAT(parts_of(*join({{"a", one}, {"b", list}, {"c", two}})),
              ElementsAre("a/cat 0 d0", "a/dog 1 d1", "b 2 f", "c/x.tar 3 d2"));
}

TEST(JoinedDataset, JoinsWhatLiesOnDisk) {
  const TempDir folder;
  folder.write("images/list.txt", "x/1.jpg 3\nx/2.jpg 4\n");
  folder.write("a.tar", TarText().add("y/1.jpg", "jpeg").add("y/1.cls", "5").end().text());
  const auto list = std::shared_ptr<const Dataset>(open_dataset({folder / "images/list.txt"}));
  const auto shards = std::shared_ptr<const Dataset>(open_dataset({folder / "a.tar"}));
  const auto joined = join({{"list", list}, {"shards", shards}});
  EXPECT_EQ(joined->kind(), "2 data sets: file list, webdataset shards");
  EXPECT_EQ(joined->path(1), folder / "images/x/2.jpg");
  EXPECT_EQ(joined->path(2), folder / "a.tar");
  EXPECT_EQ(joined->key(2), "y/1");
  EXPECT_EQ(*joined->label(2), 5);
  EXPECT_EQ(joined->place(2).shard, 0u);
  EXPECT_EQ(joined->place(2).size_bytes, 4u);
}

}  // namespace
}  // namespace feedrace::formats
