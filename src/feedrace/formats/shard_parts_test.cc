// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "feedrace/formats/shard_set.h"
#include "feedrace/formats/test_tar.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

namespace fs = std::filesystem;
using feedrace::testing::TempDir;
using testing::TarText;

/// A shard with samples KEY0, KEY1, ...: an image of 10 + i bytes and the label i.
std::string shard(const std::string& key, int count) {
  TarText tar;
  for (int i = 0; i < count; ++i) {
    tar.add(fmt::format("{}{}.jpg", key, i), std::string(static_cast<std::size_t>(10 + i), 'x'));
    tar.add(fmt::format("{}{}.cls", key, i), fmt::format("{}", i));
  }
  return tar.end().text();
}

TEST(ShardParts, HaveTheSameDigestTakenOverAsReadAnew) {
  const TempDir folder;
  // All that a digest depends on: labels that are good, bad and absent, samples without an image,
  // and fields whose numbers another shard shifts.
  folder.write("b.tar", TarText()
                            .add("1.txt", "no image")
                            .add("2.cls", "7")
                            .add("2.png", "p")
                            .add("2.webp", "ww")
                            .add("3.jpg", "jjj")
                            .add("3.cls", "cat")
                            .add("4.jpg", "jjjj")
                            .end()
                            .text());
  folder.write("a.tar", shard("a", 2));
  const std::vector<Part> first = open_shards({folder.path()})->parts();
  folder.write("a.tar", TarText().add("x.json", "{}").add("x.txt", "x").add("x.jpg", "x").text());
  const auto refreshed = open_shards({folder.path()});
  OpenOptions anew_options;
  anew_options.rebuild_index = true;
  const auto anew = open_shards({folder.path()}, anew_options);
  ASSERT_EQ(refreshed->parts().size(), 2u);
  EXPECT_NE(refreshed->parts()[0].digest, first[0].digest);
  EXPECT_EQ(refreshed->parts()[1].digest, first[1].digest);
  EXPECT_EQ(refreshed->parts()[1].first_sample, 1u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(anew->parts()[i].digest, refreshed->parts()[i].digest);
    EXPECT_EQ(anew->parts()[i].first_sample, refreshed->parts()[i].first_sample);
  }
  EXPECT_EQ(anew->key_fingerprint(), refreshed->key_fingerprint());
  EXPECT_EQ(anew->key_set_fingerprint(), refreshed->key_set_fingerprint());
}

TEST(ShardParts, AreOneForEachShardAlsoForOneWithoutImages) {
  const TempDir folder;
  folder.write("a.tar", shard("a", 2));
  folder.write("b.tar", TarText().add("b.txt", "no image").end().text());
  folder.write("c.tar", shard("c", 1));
  const auto set = open_shards({folder.path()});
  const std::vector<Part> parts = set->parts();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name, "a.tar");
  EXPECT_EQ(parts[0].first_sample, 0u);
  EXPECT_EQ(parts[1].name, "b.tar");
  EXPECT_EQ(parts[1].first_sample, 2u);
  EXPECT_EQ(parts[2].name, "c.tar");
  EXPECT_EQ(parts[2].first_sample, 2u);
  EXPECT_EQ(set->key(parts[2].first_sample), "c0");
}

TEST(ShardParts, HaveADigestThatDoesNotDependOnTheTimeOfChange) {
  const TempDir folder;
  const std::string path = folder.write("a.tar", shard("a", 2));
  const std::string before = open_shards({path})->parts()[0].digest;
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));
  EXPECT_EQ(open_shards({path})->parts()[0].digest, before);
  folder.write("a.tar", TarText()
                            .add("a0.jpg", std::string(10, 'x'))
                            .add("a0.cls", "1")
                            .add("a1.jpg", std::string(11, 'x'))
                            .add("a1.cls", "1")
                            .end()
                            .text());
  EXPECT_NE(open_shards({path})->parts()[0].digest, before) << "another label";
}

}  // namespace
}  // namespace feedrace::formats
