// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/key_digest.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/format.h"
#include "feedrace/formats/test_tar.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

using feedrace::testing::TempDir;
using testing::TarText;

struct Entry {
  std::string key;
  LabelState state = LabelState::kOk;
  std::int64_t label = 0;
};

KeyDigest& add_all(KeyDigest& digest, const std::vector<Entry>& entries) {
  for (const Entry& one : entries) digest.add(one.key, one.state, one.label);
  return digest;
}

std::string in_order(const std::vector<Entry>& entries) {
  KeyDigest digest;
  return add_all(digest, entries).in_order();
}

std::string as_set(const std::vector<Entry>& entries) {
  KeyDigest digest;
  return add_all(digest, entries).as_set();
}

TEST(KeyDigest, InOrderSeesKeysLabelsAndOrder) {
  const std::string base = in_order({{"a"}, {"b"}});
  EXPECT_EQ(base.size(), 16u);
  EXPECT_EQ(in_order({{"./a.jpg"}, {"b.tar.gz"}}), base) << "only canonical keys count";
  EXPECT_NE(in_order({{"b"}, {"a"}}), base);
  EXPECT_NE(in_order({{"ab"}, {""}}), base);
  EXPECT_NE(in_order({{"a"}}), base);
  EXPECT_NE(in_order({{"a"}, {"b", LabelState::kOk, 1}}), base);
}

TEST(KeyDigest, NoLabelIsNoNumber) {
  const std::string none = in_order({{"a", LabelState::kMissing, 0}});
  const std::string bad = in_order({{"a", LabelState::kBad, 0}});
  EXPECT_NE(none, bad);
  for (const std::int64_t label : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1},
                                   std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_NE(in_order({{"a", LabelState::kOk, label}}), none) << label;
    EXPECT_NE(in_order({{"a", LabelState::kOk, label}}), bad) << label;
    EXPECT_EQ(in_order({{"a", LabelState::kMissing, label}}), none) << label;
  }
}

TEST(KeyDigest, AsSetSeesKeysAndTheirNumberOnly) {
  const std::string base = as_set({{"a"}, {"b"}, {"c"}});
  EXPECT_EQ(base.size(), 16u);
  EXPECT_EQ(as_set({{"c"}, {"a.png", LabelState::kOk, 5}, {"./b", LabelState::kBad}}), base);
  EXPECT_NE(as_set({{"a"}, {"b"}}), base);
  EXPECT_NE(as_set({{"a"}, {"b"}, {"c"}, {"c"}}), base) << "a key that comes twice";
  EXPECT_NE(as_set({{"a"}, {"b"}, {"d"}}), base);
}

TEST(KeyDigest, IsTheSameForAFolderAListAndShardsOfTheSameSamples) {
  const TempDir folder;
  folder.write("images/cat/1.jpg", "one");
  folder.write("images/cat/2.png", "two");
  folder.write("images/dog/1.jpeg", "three");
  const std::string list =
      folder.write("images/list.txt", "cat/1.jpg 0\ncat/2.png 0\ndog/1.jpeg 1\n");
  folder.write("shards/0.tar", TarText()
                                   .add("./cat/1.jpg", "one")
                                   .add("./cat/1.cls", "0")
                                   .add("note.txt", "no image, so it is not counted")
                                   .end()
                                   .text());
  folder.write("shards/1.tar", TarText()
                                   .add("cat/2.cls", "0")
                                   .add("cat/2.png", "two")
                                   .add("dog/1.jpeg", "three")
                                   .add("dog/1.cls", "1")
                                   .end()
                                   .text());
  const auto images = open_dataset({folder / "images"});
  EXPECT_EQ(images->size(), 3u);
  for (const std::string& other : {list, folder / "shards"}) {
    const auto set = open_dataset({other});
    EXPECT_EQ(set->key_fingerprint(), images->key_fingerprint()) << other;
    EXPECT_EQ(set->key_set_fingerprint(), images->key_set_fingerprint()) << other;
  }
  // Another order, and no labels: only the set of keys is still the same.
  const std::string bare = folder.write("bare.csv", "path\ndog/1.jpeg\ncat/1.jpg\ncat/2.png\n");
  const auto unlabelled = open_dataset({bare});
  EXPECT_NE(unlabelled->key_fingerprint(), images->key_fingerprint());
  EXPECT_EQ(unlabelled->key_set_fingerprint(), images->key_set_fingerprint());
  EXPECT_TRUE(unlabelled->parts().empty());
}

}  // namespace
}  // namespace feedrace::formats
