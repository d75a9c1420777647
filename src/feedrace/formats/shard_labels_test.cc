// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/shard_labels.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/formats/test_tar.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

using feedrace::testing::TempDir;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TarText;

/// Code and message of the error that opening throws; empty for none. The second opening, from the
/// stored index, must say the same.
std::string error_of(const std::string& path, const OpenOptions& options) {
  std::vector<std::string> texts;
  for (int i = 0; i < 2; ++i) {
    try {
      open_dataset({path}, options);
      texts.emplace_back();
    } catch (const Error& error) {
      texts.push_back(fmt::format("{}: {}", to_string(error.code()), error.what()));
    }
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0].find('\n'), std::string::npos);
  return texts[0];
}

OpenOptions by_field(const std::string& field, const std::string& json_key = "label") {
  OpenOptions options;
  options.label_field = field;
  options.label_json_key = json_key;
  return options;
}

/// Two samples; the first has what `add` gives.
std::string write_shard(const TempDir& folder, const std::string& field, const std::string& content,
                        bool both = true) {
  TarText tar;
  tar.add("d/1.jpg", "x").add("d/1." + field, content).add("d/2.jpg", "x");
  if (both) tar.add("d/2." + field, content);
  return folder.write("a.tar", tar.end().text());
}

TEST(ShardLabels, RefuseALabelFileThatMatchesNoKey) {
  const TempDir folder;
  const std::string path = write_shard(folder, "cls", "1");
  OpenOptions options;
  options.label_file = folder.write("l.txt", "2.jpg 7\n1.jpg 5\n");
  EXPECT_THAT(error_of(path, options),
              AllOf(HasSubstr("invalid_argument: "), HasSubstr("no sample gets a label"),
                    HasSubstr("l.txt: 0 of 2 keys matched: it has such as 1.jpg, the shards such "
                              "as d/1; write keys as the shards have them")));
  folder.write("l.txt", "");
  EXPECT_THAT(error_of(path, options), HasSubstr("l.txt is empty; write a line"));
}

TEST(ShardLabels, RefuseAFieldThatNoImageHas) {
  const TempDir folder;
  const std::string path = write_shard(folder, "cls", "1");
  EXPECT_THAT(
      error_of(path, by_field("target")),
      AllOf(HasSubstr("invalid_argument: "),
            HasSubstr("label_field target: none of 2 images has a field target; fields found: jpg, "
                      "cls; name the one that holds the label in label_field")));
  EXPECT_THAT(error_of(path, by_field("json")), HasSubstr("none of 2 images has a field json"));
  EXPECT_THAT(error_of(path, by_field("auto", "y")), IsEmpty()) << "cls gives labels";
}

TEST(ShardLabels, RefuseAFieldThatOnlySamplesWithoutImageHave) {
  const TempDir folder;
  const std::string path =
      folder.write("a.tar", TarText().add("1.jpg", "x").add("2.cls", "3").end().text());
  EXPECT_THAT(error_of(path, by_field("cls")), HasSubstr("none of 1 image has a field cls"));
}

TEST(ShardLabels, RefuseAJsonKeyThatNoDocumentHas) {
  const TempDir folder;
  const std::string path = write_shard(folder, "json", R"({"caption": "x", "url": "y"})");
  for (const OpenOptions& options :
       {by_field("auto", "class"), by_field("json"), by_field("json", "class")}) {
    EXPECT_THAT(error_of(path, options),
                HasSubstr(fmt::format("label_json_key {}: no such member in the json field of any "
                                      "of 2 images; that of sample d/1 has: caption, url; name",
                                      options.label_json_key)));
  }
  write_shard(folder, "json", "[]");
  EXPECT_THAT(error_of(path, by_field("json")), HasSubstr("that of sample d/1 is no object"));
  write_shard(folder, "txt", "x");
  EXPECT_THAT(error_of(path, by_field("auto", "class")),
              HasSubstr("label_json_key class: none of 2 images has a field json; fields found: "
                        "jpg, txt"));
}

TEST(ShardLabels, AreCountedWhereOnlySomeSamplesHaveOne) {
  const TempDir folder;
  const std::string path = write_shard(folder, "target", "4", /*both=*/false);
  const auto by_target = open_dataset({path}, by_field("target"));
  EXPECT_EQ(*by_target->label(0), 4);
  EXPECT_FALSE(by_target->label(1));
  EXPECT_THAT(by_target->warnings(), ElementsAre(HasSubstr("1 of 2 samples have no label")));
  OpenOptions options;
  options.label_file = folder.write("l.txt", "d/2 7\n");
  const auto by_file = open_dataset({path}, options);
  EXPECT_EQ(*by_file->label(1), 7);
  EXPECT_THAT(by_file->label(0).error().message,
              AllOf(HasSubstr("a.tar: sample d/1.jpg"), HasSubstr("no label in "),
                    HasSubstr("l.txt; add its key")));
  EXPECT_THAT(by_file->warnings(), ElementsAre(HasSubstr("1 of 2 samples have no label")));
}

TEST(ShardLabels, AreMissedInAWarningWhenNoneWasNamed) {
  const TempDir folder;
  const std::string path = write_shard(folder, "txt", "x");
  const auto set = open_dataset({path});
  EXPECT_EQ(*set->label(0), -1);
  EXPECT_EQ(set->label_source(), "none: every label is -1");
  EXPECT_THAT(set->warnings(), ElementsAre(HasSubstr("no labels: every label is -1; pack a .cls")));
  const auto unwanted = open_dataset({path}, by_field(""));
  EXPECT_EQ(*unwanted->label(0), -1);
  EXPECT_EQ(unwanted->label_source(), "none: every label is -1");
  EXPECT_THAT(unwanted->warnings(), IsEmpty());
}

TEST(ShardLabels, SayWhereTheyComeFrom) {
  const TempDir folder;
  const std::string path = folder.write("a.tar", TarText()
                                                     .add("1.jpg", "x")
                                                     .add("1.cls", "1")
                                                     .add("1.json", R"({"label": 2, "y": 3})")
                                                     .add("1.y.json", R"({"y": 4})")
                                                     .end()
                                                     .text());
  const auto source = [&](const OpenOptions& options) {
    return open_dataset({path}, options)->label_source();
  };
  EXPECT_EQ(source({}), "cls field, else json field, key \"label\"");
  EXPECT_EQ(source(by_field("cls")), "cls field");
  EXPECT_EQ(source(by_field("json", "y")), "json field, key \"y\"");
  EXPECT_EQ(source(by_field("y.json", "y")), "y.json field, key \"y\"");
  OpenOptions options;
  options.label_file = folder.write("l.txt", "1 7\n");
  EXPECT_EQ(source(options), "label file l.txt");
  write_shard(folder, "cls", "1");
  EXPECT_EQ(source({}), "cls field");
  write_shard(folder, "json", R"({"label": 2})");
  EXPECT_EQ(source({}), "json field, key \"label\"");
}

TEST(ShardLabels, AreNotAskedOfToolsThatListWhatThereIs) {
  const TempDir folder;
  const std::string path = write_shard(folder, "txt", "x");
  const auto set = open_shards({path}, by_field("cls"));
  EXPECT_EQ(set->entry_count(), 2u);
  EXPECT_THAT(set->warnings(), Contains(HasSubstr("no labels")));
}

}  // namespace
}  // namespace feedrace::formats
