// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/renumbered_dataset.h"

#include <memory>
#include <string>
#include <vector>

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
using testing::ListedDataset;
using testing::TarText;

std::string error_of(const std::shared_ptr<const Dataset>& set, const Dataset& reference) {
  try {
    number_like(set, reference);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

TEST(RenumberedDataset, NumbersShardsAsTheFolderTheyWerePackedFrom) {
  const TempDir folder;
  for (const char* name : {"cat/1.jpg", "cat/2.png", "dog/1.jpg"}) {
    folder.write(std::string("images/") + name, name);
  }
  folder.write("shards/0.tar", TarText()
                                   .add("./dog/1.jpg", "dog/1.jpg")
                                   .add("./dog/1.cls", "1")
                                   .add("./cat/2.png", "two")
                                   .add("./cat/2.cls", "0")
                                   .end()
                                   .text());
  folder.write("shards/1.tar",
               TarText().add("./cat/1.jpg", "1").add("./cat/1.cls", "0").end().text());
  const auto images = open_dataset({folder / "images"});
  const std::shared_ptr<const Dataset> shards = open_dataset({folder / "shards"});
  const auto numbered = number_like(shards, *images);
  ASSERT_EQ(numbered->size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(canonical_key(numbered->key(i)), canonical_key(images->key(i)));
    EXPECT_EQ(*numbered->label(i), *images->label(i));
  }
  EXPECT_EQ(numbered->key(1), "./cat/2") << "keys are the set's own";
  EXPECT_EQ(numbered->place(0).shard, 1u);
  EXPECT_EQ(numbered->place(1).shard, 0u);
  EXPECT_EQ(numbered->place(1).size_bytes, 3u);
  EXPECT_EQ(numbered->path(0), folder / "shards/1.tar");
  EXPECT_EQ(numbered->where(1), shards->where(1));
  EXPECT_EQ(numbered->shards(), shards->shards());
  EXPECT_EQ(numbered->kind(), "webdataset shards");
  EXPECT_EQ(numbered->label_source(), "cls field");
  EXPECT_EQ(numbered->max_image_bytes(), 9u);
  EXPECT_DOUBLE_EQ(numbered->mean_image_bytes(), shards->mean_image_bytes());
  EXPECT_EQ(numbered->key_fingerprint(), images->key_fingerprint());
  EXPECT_NE(shards->key_fingerprint(), images->key_fingerprint());
  EXPECT_EQ(numbered->key_set_fingerprint(), images->key_set_fingerprint());
  EXPECT_NE(numbered->fingerprint(), shards->fingerprint());
  EXPECT_THAT(numbered->parts(), IsEmpty());
  EXPECT_THAT(number_like(numbered, *shards)->key(0), "./dog/1") << "and back again";
}

TEST(RenumberedDataset, FingerprintFollowsSetAndNumbering) {
  const auto set = listed_dataset({{"a"}, {"b"}});
  const auto reference = listed_dataset({{"b"}, {"a"}});
  const std::string base = number_like(set, *reference)->fingerprint();
  EXPECT_EQ(number_like(set, *reference)->fingerprint(), base);
  reference->key_fingerprint_text = "other";
  EXPECT_NE(number_like(set, *reference)->fingerprint(), base);
  reference->key_fingerprint_text = "k";
  set->fingerprint_text = "other";
  EXPECT_NE(number_like(set, *reference)->fingerprint(), base);
}

TEST(RenumberedDataset, RefusesAnotherNumberOfSamples) {
  const auto set = listed_dataset({{"a"}, {"b"}});
  const auto reference = listed_dataset({{"a"}, {"b"}, {"c"}});
  set->kind_text = "webdataset shards";
  EXPECT_THAT(error_of(set, *reference),
              HasSubstr("webdataset shards numbered like another set (image folder): it has 2 "
                        "samples, the other 3; "));
}

TEST(RenumberedDataset, NamesAKeyThatOneOfThemLacks) {
  const auto set = listed_dataset({{"a"}, {"x\n"}, {"b"}, {"y"}});
  const auto reference = listed_dataset({{"c/2.jpg"}, {"b.jpg"}, {"a.jpg"}, {"c/1.jpg"}});
  EXPECT_THAT(error_of(set, *reference),
              HasSubstr("it lacks 2 of the other's 4 keys, such as c/2, and has instead such as "
                        "x\\x0a; "));
}

TEST(RenumberedDataset, RefusesAKeyThatComesTwice) {
  const auto once = listed_dataset({{"a"}, {"b"}, {"c"}});
  const auto twice = listed_dataset({{"a.jpg"}, {"b"}, {"./a.png"}});
  EXPECT_THAT(error_of(twice, *once), HasSubstr("key a comes twice in it"));
  EXPECT_THAT(error_of(once, *twice), HasSubstr("key a comes twice in the other"));
}

TEST(RenumberedDataset, RefusesALabelThatDiffers) {
  const auto set = listed_dataset({{"a", 1}, {"b", 2}});
  const auto reference = listed_dataset({{"b", 3}, {"a", 1}});
  EXPECT_THAT(error_of(set, *reference),
              HasSubstr("key b has label 2 in it and label 3 in the other; "));
  reference->samples[0].has_label = false;
  EXPECT_THAT(error_of(set, *reference),
              HasSubstr("key b has label 2 in it and no good label in the other"));
  set->samples[1].has_label = false;
  EXPECT_EQ(number_like(set, *reference)->key(0), "b") << "bad in both is no difference";
}

TEST(RenumberedDataset, RefusesLabelsInOneOfThemOnly) {
  const auto set = listed_dataset({{"a", -1}});
  const auto reference = listed_dataset({{"a", -1}});
  set->label_source_text = "none: every label is -1";
  EXPECT_THAT(error_of(set, *reference),
              HasSubstr("it has no labels, the other has labels (from: list); give both"));
  EXPECT_THAT(error_of(reference, *set), HasSubstr("the other has no labels, it has labels"));
  reference->label_source_text = set->label_source_text;
  EXPECT_EQ(error_of(set, *reference), "");
}

TEST(RenumberedDataset, FindsEachOfManyKeys) {
  std::vector<ListedDataset::Sample> samples;
  for (int i = 0; i < 5000; ++i) samples.push_back({"k" + std::to_string(i * 7919 % 5000), i});
  std::vector<ListedDataset::Sample> turned(samples.rbegin(), samples.rend());
  const auto numbered = number_like(listed_dataset(samples), *listed_dataset(turned));
  for (std::uint64_t i = 0; i < 5000; ++i) ASSERT_EQ(numbered->key(i), turned[i].key);
}

}  // namespace
}  // namespace feedrace::formats
