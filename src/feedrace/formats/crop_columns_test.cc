// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/crop_columns.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/formats/shard_set.h"
#include "feedrace/formats/test_tar.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/jpeg/crop_index.h"
#include "feedrace/testing/images.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

namespace fs = std::filesystem;
using feedrace::testing::make_jpeg;
using feedrace::testing::TempDir;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TarText;

/// Large enough for a crop index.
std::string picture(std::uint32_t seed) { return make_jpeg(400, 300, seed, 95); }

/// Two pictures that have a crop index, and a sample that can have none.
std::string shard(const std::string& prefix, std::uint32_t seed) {
  return TarText()
      .add(prefix + "0.jpg", picture(seed))
      .add(prefix + "0.cls", "1")
      .add(prefix + "1.cls", "1")
      .add(prefix + "1.jpg", "no picture")
      .add(prefix + "2.cls", "2")
      .add(prefix + "2.jpg", picture(seed + 1))
      .end()
      .text();
}

OpenOptions making() {
  OpenOptions options;
  options.make_crop_index = true;
  return options;
}

/// True when the sample's crop index is of this picture.
bool fits(const Dataset& set, std::uint64_t sample, const std::string& encoded) {
  const auto bytes = std::as_bytes(std::span(encoded));
  jpeg::Frame frame;
  jpeg::CropIndex index;
  return jpeg::read_frame(bytes, frame) == nullptr &&
         index.read(set.crop_index(sample), bytes, frame) == nullptr;
}

TEST(CropColumns, OfShardsAreMadeOnlyWhenAskedFor) {
  const TempDir folder;
  folder.write("a.tar", shard("a", 1));
  folder.write("b.tar", shard("b", 3));
  const auto plain = open_shards({folder.path()});
  EXPECT_EQ(plain->crop_index_count(), 0U);
  EXPECT_TRUE(plain->crop_index(0).empty());
  EXPECT_FALSE(fs::exists(folder.path() / "shards.frindex/crop_index.npy"));

  for (const OpenOptions& options : {making(), OpenOptions()}) {
    const auto set = open_shards({folder.path()}, options);
    EXPECT_THAT(set->warnings(), IsEmpty());
    EXPECT_EQ(set->crop_index_count(), 4U);
    EXPECT_EQ(set->crop_index_gaps(), (CropIndexGaps{{"not JPEG", 2}}));
    EXPECT_EQ(set->crop_index_path(), folder / "shards.frindex");
    EXPECT_TRUE(fits(*set, 0, picture(1)));
    EXPECT_TRUE(set->crop_index(1).empty());
    EXPECT_TRUE(fits(*set, 2, picture(2)));
    EXPECT_TRUE(fits(*set, 5, picture(4)));
    EXPECT_EQ(set->fingerprint(), plain->fingerprint());
  }
}

TEST(CropColumns, OfAShardThatChangedAreLostAndRenewed) {
  const TempDir folder;
  const std::string a = folder.write("a.tar", shard("a", 1));
  folder.write("b.tar", shard("b", 3));
  open_shards({folder.path()}, making());
  // Same size and time, other content: only making its crop indexes again would look at it.
  const auto time = fs::last_write_time(a);
  const std::string kept = feedrace::testing::read_file(a);
  folder.write("a.tar", std::string(kept.size(), 'x'));
  fs::last_write_time(a, time);

  folder.write("b.tar", shard("b", 5) + std::string(512, '\0'));
  const auto lost = open_shards({folder.path()});
  EXPECT_EQ(lost->crop_index_count(), 2U);
  EXPECT_TRUE(fits(*lost, 0, picture(1)));
  EXPECT_TRUE(lost->crop_index(3).empty());
  EXPECT_THAT(lost->warnings(), Contains(HasSubstr("1 of 2 shards have no crop index")));
  EXPECT_THAT(lost->warnings(),
              Contains(HasSubstr("feedrace index " + lost->source_words(0) + " --crop-index")));
  EXPECT_EQ(lost->source_words(0), std::string(folder.path()));
  EXPECT_EQ(lost->crop_index_gaps(), (CropIndexGaps{{"not JPEG", 1}}));

  const auto renewed = open_shards({folder.path()}, making());
  EXPECT_EQ(renewed->crop_index_count(), 4U);
  EXPECT_TRUE(fits(*renewed, 3, picture(5)));
  EXPECT_THAT(renewed->warnings(), IsEmpty());
}

TEST(CropColumns, ThatARebuildDropsAreNamed) {
  const TempDir folder;
  folder.write("a.tar", shard("a", 1));
  OpenOptions anew;
  anew.rebuild_index = true;
  EXPECT_THAT(open_shards({folder.path()}, anew)->warnings(), IsEmpty());
  open_shards({folder.path()}, making());
  EXPECT_THAT(open_shards({folder.path()}, anew)->warnings(),
              Contains(HasSubstr("no crop index any more, as the index was made anew")));
  EXPECT_THAT(open_shards({folder.path()}, anew)->warnings(), IsEmpty());
}

TEST(CropColumns, AreNotMadeOfAList) {
  const TempDir folder;
  folder.write("1.jpg", picture(1));
  const std::string list = folder.write("l.txt", "1.jpg 0\n");
  EXPECT_THROW(open_dataset({list}, making()), Error);
  EXPECT_EQ(open_dataset({list})->size(), 1U);
}

TEST(CropColumns, TellHowFarTheyAre) {
  const TempDir folder;
  folder.write("a.tar", shard("a", 1));
  std::uint64_t picture_count = 0;
  double share = 0;
  OpenOptions options = making();
  options.crop_index_progress = [&](std::uint64_t count, double done) {
    EXPECT_EQ(count, picture_count + 1);
    EXPECT_GE(done, share);
    picture_count = count;
    share = done;
  };
  open_shards({folder.path()}, options);
  EXPECT_EQ(picture_count, 3U);
  EXPECT_GT(share, 0.5);
  EXPECT_LE(share, 1);
}

TEST(CropColumns, ThatAreDamagedAreMadeAnewOrLeadNowhere) {
  const TempDir folder;
  folder.write("a.tar", shard("a", 1));
  open_shards({folder.path()}, making());
  const std::string path = folder / "shards.frindex/crop_index_begin.npy";
  const std::string good = feedrace::testing::read_file(path);
  std::string wild = good;
  for (std::size_t i = kNpyHeaderBytes; i + 8 < wild.size(); ++i) wild[i] = '\xff';
  folder.write("shards.frindex/crop_index_begin.npy", wild);
  const auto set = open_shards({folder.path()});
  for (std::uint64_t i = 0; i < set->size(); ++i) EXPECT_TRUE(set->crop_index(i).empty());
  EXPECT_TRUE(set->crop_index(1000).empty());

  folder.write("shards.frindex/crop_index_begin.npy", good.substr(0, good.size() - 8));
  EXPECT_THAT(open_shards({folder.path()})->warnings(), Contains(HasSubstr("index made anew")));
}

TEST(FolderCrops, LieBesideTheFolder) {
  const TempDir parent;
  parent.write("train/cat/1.jpg", picture(1));
  parent.write("train/dog/2.jpg", "no picture");
  parent.write("train/dog/3.jpg", picture(2));
  const std::string root = parent / "train";
  const auto plain = open_dataset({root});
  EXPECT_EQ(plain->crop_index_count(), 0U);
  EXPECT_FALSE(fs::exists(parent.path() / "train.crops.frindex"));
  for (const OpenOptions& options : {making(), OpenOptions()}) {
    const auto set = open_dataset({root + "/"}, options);
    EXPECT_EQ(set->crop_index_count(), 2U);
    EXPECT_EQ(set->crop_index_gaps(), (CropIndexGaps{{"not JPEG", 1}}));
    EXPECT_EQ(set->crop_index_path(), parent / "train.crops.frindex");
    EXPECT_EQ(set->source_words(0), root + "/");
    EXPECT_TRUE(fits(*set, 0, picture(1)));
    EXPECT_TRUE(set->crop_index(1).empty());
    EXPECT_TRUE(fits(*set, 2, picture(2)));
    EXPECT_EQ(set->fingerprint(), plain->fingerprint());
    EXPECT_EQ(set->warnings(), plain->warnings());
  }
  EXPECT_TRUE(fs::exists(parent.path() / "train.crops.frindex"));
}

TEST(FolderCrops, OfAnotherListOfFilesAreNotUsed) {
  const TempDir parent;
  parent.write("train/cat/1.jpg", picture(1));
  const std::string root = parent / "train";
  open_dataset({root}, making());
  parent.write("train/cat/0.jpg", picture(2));
  const auto changed = open_dataset({root});
  EXPECT_EQ(changed->crop_index_count(), 0U);
  EXPECT_TRUE(changed->crop_index(0).empty());
  EXPECT_THAT(changed->warnings(), Contains(HasSubstr("files came or went")));
  const auto renewed = open_dataset({root}, making());
  EXPECT_TRUE(fits(*renewed, 0, picture(2)));
  EXPECT_TRUE(fits(*renewed, 1, picture(1)));
}

// Nobody looks at sizes and times: the hash in the crop index tells.
TEST(FolderCrops, OfAFileThatChangedDoNotFit) {
  const TempDir parent;
  parent.write("train/cat/1.jpg", picture(1));
  const std::string root = parent / "train";
  open_dataset({root}, making());
  parent.write("train/cat/1.jpg", picture(2));
  EXPECT_FALSE(fits(*open_dataset({root}), 0, picture(2)));
  OpenOptions anew = making();
  anew.rebuild_index = true;
  EXPECT_TRUE(fits(*open_dataset({root}, anew), 0, picture(2)));
}

TEST(FolderCrops, GoToTheCacheWhereTheParentCanNotBeWritten) {
  const TempDir parent;
  const TempDir cache;
  parent.write("train/cat/1.jpg", picture(1));
  // A file where the index would be put in place: works for root as well, unlike chmod.
  parent.write("train.crops.frindex", "not a folder");
  OpenOptions options = making();
  options.cache_dir = cache.path();
  EXPECT_TRUE(fits(*open_dataset({parent / "train"}, options), 0, picture(1)));
  options.make_crop_index = false;
  EXPECT_TRUE(fits(*open_dataset({parent / "train"}, options), 0, picture(1)));
  options.make_crop_index = options.rebuild_index = true;
  options.cache_dir = parent.write("file", "no folder either");
  EXPECT_THROW(open_dataset({parent / "train"}, options), Error);
}

TEST(FolderCrops, ThatAreDamagedAreNotUsed) {
  const TempDir parent;
  parent.write("train/cat/1.jpg", picture(1));
  const std::string root = parent / "train";
  open_dataset({root}, making());
  for (const char* name : {"meta.json", "crop_index.npy", "crop_index_begin.npy"}) {
    const std::string path = parent / (std::string("train.crops.frindex/") + name);
    const std::string good = feedrace::testing::read_file(path);
    for (const std::string& bad : {std::string(), good.substr(0, good.size() / 2)}) {
      parent.write(std::string("train.crops.frindex/") + name, bad);
      const auto set = open_dataset({root});
      EXPECT_TRUE(set->crop_index(0).empty()) << name;
      EXPECT_THAT(set->warnings(), Contains(HasSubstr("not used"))) << name;
    }
    parent.write(std::string("train.crops.frindex/") + name, good);
  }
  EXPECT_THAT(open_dataset({root})->warnings(), IsEmpty());
}

}  // namespace
}  // namespace feedrace::formats
