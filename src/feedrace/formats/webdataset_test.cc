// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/webdataset.h"

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/formats/decoded_pictures.h"
#include "feedrace/formats/test_tar.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

using feedrace::testing::TempDir;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TarText;

/// Message and code of the error that opening throws; empty for none.
std::string error_of(const std::vector<std::string>& sources, const OpenOptions& options = {}) {
  try {
    open_dataset(sources, options);
  } catch (const Error& error) {
    return fmt::format("{}: {}", to_string(error.code()), error.what());
  }
  return "";
}

std::vector<std::string> entries_of(const ShardSet& set) {
  std::vector<std::string> entries;
  for (std::uint64_t i = 0; i < set.entry_count(); ++i) {
    std::string line(set.entry_key(i));
    for (const auto& field : set.fields(i)) line += fmt::format(" {}", field.name);
    entries.push_back(line);
  }
  return entries;
}

TEST(Webdataset, PutsPartsThatLieApartTogether) {
  const TempDir folder;
  const std::string path = folder.write("a.tar", TarText()
                                                     .add("1.jpg", "x")
                                                     .add("2.jpg", "x")
                                                     .add("2.cls", "2")
                                                     .add("1.cls", "1")
                                                     .add("3.jpg", "x")
                                                     .add("3.cls", "3")
                                                     .end()
                                                     .text());
  const auto set = open_shards({path});
  EXPECT_THAT(entries_of(*set), ElementsAre("1 jpg cls", "2 jpg cls", "3 jpg cls"));
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(*set->label(i), static_cast<std::int64_t>(i + 1));
  EXPECT_THAT(set->warnings(), Contains(HasSubstr("not adjacent, put together; sort the names when "
                                                  "packing: a.tar 1 (1 in all)")));
}

TEST(Webdataset, LeavesASampleOutThatHasAFieldTwice) {
  const TempDir folder;
  const std::string path = folder.write("a.tar", TarText()
                                                     .add("1.jpg", "x")
                                                     .add("1.cls", "1")
                                                     .add("2.jpg", "x")
                                                     .add("2.JPG", "y")
                                                     .add("3.jpg", "x")
                                                     .add("1.jpg", "again")
                                                     .end()
                                                     .text());
  const auto set = open_shards({path});
  EXPECT_THAT(entries_of(*set), ElementsAre("3 jpg"));
  EXPECT_THAT(set->warnings(),
              Contains(HasSubstr("a field twice (duplicate members): a.tar 1, a.tar 2")));
}

TEST(Webdataset, NumbersOnlySamplesWithAnImage) {
  const TempDir folder;
  const std::string path = folder.write("a.tar", TarText()
                                                     .add("0.json", "{}")
                                                     .add("1.webp", "ww")
                                                     .add("1.png", "p")
                                                     .add("2.txt", "t")
                                                     .add("3.jpg", "jjj")
                                                     .end()
                                                     .text());
  const auto set = open_dataset({path});
  ASSERT_EQ(set->size(), 2u);
  EXPECT_EQ(set->key(0), "1");
  EXPECT_EQ(set->place(0).size_bytes, 1u) << "png stands before webp in the default order";
  EXPECT_EQ(set->key(1), "3");
  EXPECT_THAT(set->warnings(),
              Contains(HasSubstr("2 of 4 samples left out, as they have no image field")));
  OpenOptions options;
  options.image_fields = {"webp", "txt"};
  const auto other = open_dataset({path}, options);
  EXPECT_EQ(other->size(), 2u);
  EXPECT_EQ(other->place(0).size_bytes, 2u);
  EXPECT_EQ(other->key(1), "2");
}

TEST(Webdataset, ArraysAreImagesOnlyInShardsWithoutOthers) {
  const TempDir folder;
  folder.write("a.tar",
               TarText().add("0.npy", "a").add("0.jpg", "jj").add("1.npy", "a").end().text());
  folder.write("b.tar", TarText().add("2.npy.zst", "zzz").add("2.cls", "1").end().text());
  const auto set = open_dataset({folder.path()});
  ASSERT_EQ(set->size(), 2u);
  EXPECT_EQ(set->key(0), "0");
  EXPECT_EQ(set->place(0).size_bytes, 2u);
  EXPECT_EQ(set->key(1), "2");
  EXPECT_EQ(set->place(1).size_bytes, 3u);
  EXPECT_FALSE(holds_decoded(*set));
  EXPECT_TRUE(holds_decoded(*open_dataset({folder / "b.tar"})));
  OpenOptions named;
  named.image_fields = {"jpg", "npy"};
  EXPECT_EQ(open_dataset({folder / "a.tar"}, named)->size(), 2u);
}

TEST(Webdataset, ListsTheFieldsThatThereAreWhenNoneIsAnImage) {
  const TempDir folder;
  const std::string path =
      folder.write("a.tar", TarText().add("1.tiff", "x").add("1.cls", "1").end().text());
  EXPECT_THAT(error_of({path}), HasSubstr("not_found: " + path +
                                          ": none of 1 sample has an image field "
                                          "(jpg, jpeg, png, webp, npy, npy.lz4, npy.zst); fields "
                                          "found: tiff, cls"));
  const std::string empty = folder.write("empty.tar", TarText().end().text());
  EXPECT_THAT(error_of({empty}), HasSubstr("no samples in 1 shard"));
}

TEST(Webdataset, TakesTheLabelFromClsBeforeJsonWhateverTheirOrder) {
  const TempDir folder;
  const std::string path = folder.write("a.tar", TarText()
                                                     .add("1.json", "{\"label\": 10}")
                                                     .add("1.cls", "1")
                                                     .add("1.jpg", "x")
                                                     .add("2.cls", "2")
                                                     .add("2.jpg", "x")
                                                     .add("2.json", "{\"label\": 20, \"y\": -3}")
                                                     .add("3.jpg", "x")
                                                     .add("3.json", "{\"label\": 30, \"y\": 7}")
                                                     .end()
                                                     .text());
  const auto set = open_dataset({path});
  EXPECT_EQ(*set->label(0), 1);
  EXPECT_EQ(*set->label(1), 2);
  EXPECT_EQ(*set->label(2), 30);
  OpenOptions options;
  options.label_field = "json";
  options.label_json_key = "y";
  const auto by_y = open_dataset({path}, options);
  EXPECT_THAT(by_y->label(0).error().message, HasSubstr("a.tar: sample 1.jpg"));
  EXPECT_THAT(by_y->label(0).error().message, HasSubstr("no label, though other samples have one"));
  EXPECT_EQ(*by_y->label(1), -3);
  options.label_field = "";
  const auto none = open_dataset({path}, options);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(*none->label(i), -1);
}

TEST(Webdataset, ShowsABadLabel) {
  const TempDir folder;
  const std::string path = folder.write("a.tar", TarText()
                                                     .add("1.jpg", "x")
                                                     .add("1.cls", "cat")
                                                     .add("2.jpg", "x")
                                                     .add("2.cls", "4")
                                                     .end()
                                                     .text());
  const auto set = open_dataset({path});
  EXPECT_THAT(
      set->label(0).error().message,
      HasSubstr("a.tar: sample 1.jpg (offset 512, 1 bytes): field cls: label 'cat' is not a "
                "whole number"));
  EXPECT_EQ(*set->label(1), 4);
  EXPECT_THAT(set->warnings(),
              ElementsAre(HasSubstr("1 of 2 samples have a label that is no whole number")));
}

TEST(Webdataset, TakesLabelsByKeyFromAFile) {
  const TempDir folder;
  const std::string path = folder.write(
      "a.tar", TarText().add("d/1.jpg", "x").add("d/1.cls", "9").add("d/2.jpg", "x").end().text());
  OpenOptions options;
  options.label_file = folder.write("labels.txt",
                                    "\xef\xbb\xbf"
                                    "d/1 5\r\n\r\nd/3 6\n");
  const auto set = open_dataset({path}, options);
  EXPECT_EQ(*set->label(0), 5);
  EXPECT_THAT(set->label(1).error().message, HasSubstr("no label"));
  folder.write("labels.txt", "d/1 6\nd/2 7\n");
  const auto changed = open_dataset({path}, options);
  EXPECT_EQ(*changed->label(0), 6) << "another label file is another index";
  EXPECT_EQ(*changed->label(1), 7);
  folder.write("labels.txt", "d/1 6\nd/1 7\n");
  EXPECT_THAT(error_of({path}, options), HasSubstr("labels.txt: line 2: key d/1 comes twice"));
}

TEST(Webdataset, SaysThatAStrayTarHidesTheClassFolders) {
  const TempDir folder;
  folder.write("cat/1.jpg", "x");
  folder.write("zebra/1.jpg", "x");
  for (const std::string& content : {TarText().add("notes.txt", "x").end().text(),
                                     TarText().end().text(), std::string(2048, 'n')}) {
    const std::string stray = folder.write("backup.tar", content);
    EXPECT_THAT(error_of({folder.path()}),
                HasSubstr("; folders with pictures, such as cat, are not read because backup.tar "
                          "lies beside them; move backup.tar away to read the folders as classes"));
    std::filesystem::remove(stray);
    const auto set = open_dataset({folder.path()});
    EXPECT_THAT(set->classes(), ElementsAre("cat", "zebra")) << "the tar's index is no class";
  }
  folder.write("backup.tar", TarText().add("1.jpg", "x").add("1.cls", "1").end().text());
  EXPECT_THAT(open_dataset({folder.path()})->warnings(),
              Contains(HasSubstr("only the shards are read: 2 folders beside 1 shard left out")));
}

TEST(Webdataset, FindsAKeyWithADotAndSlashInFrontWhereThereIsNoOther) {
  const TempDir folder;
  const std::string path = folder.write("a.tar", TarText()
                                                     .add("./1.jpg", "x")
                                                     .add("./d/2.jpg", "x")
                                                     .add("./3.jpg", "x")
                                                     .add("3.jpg", "x")
                                                     .end()
                                                     .text());
  const auto set = open_shards({path});
  EXPECT_EQ(set->find(0, "1"), 0u);
  EXPECT_EQ(set->find(0, "./1"), 0u);
  EXPECT_EQ(set->find(0, "d/2"), 1u);
  EXPECT_EQ(set->find(0, "3"), 3u) << "the exact one first";
  EXPECT_EQ(set->find(0, "./3"), 2u);
  EXPECT_EQ(set->find(0, "2"), std::nullopt);
  EXPECT_EQ(set->find(0, "/1"), std::nullopt);
}

TEST(Webdataset, NamesAllDamagedShardsAtOnce) {
  const TempDir folder;
  folder.write("a.tar", TarText().add("1.jpg", "x").end().text());
  folder.write("b.tar", "not a tar");
  folder.write("c.tar", "");
  const std::string message = error_of({folder.path()});
  EXPECT_THAT(message, HasSubstr("corrupt_data: "));
  EXPECT_THAT(message, HasSubstr("b.tar: not a tar"));
  EXPECT_THAT(message, HasSubstr("and 1 more of 3 shards"));
  EXPECT_THAT(message, HasSubstr("c.tar: empty file"));
}

TEST(Webdataset, RefusesMoreFieldsThanNamesWithDotsCanMean) {
  TarText tar;
  for (int i = 0; i < 65'537; ++i) tar.add(fmt::format("img.{:06}.jpg", i), "");
  const TempDir folder;
  EXPECT_THAT(error_of({folder.write("a.tar", tar.end().text())}), HasSubstr("invalid_argument: "));
}

TEST(OpenDataset, NamesThePlaceWhatWasFoundAndWhatToDo) {
  const TempDir folder;
  folder.write("empty/x.txt", "");
  folder.write("odd.bin", "x");
  folder.write("a/1.jpg", "x");
  EXPECT_THAT(error_of({}), HasSubstr("no source given"));
  EXPECT_THAT(error_of({folder / "gone"}), HasSubstr("not_found: "));
  EXPECT_THAT(error_of({folder / "gone"}),
              HasSubstr("gone: no such file or folder; check the path"));
  EXPECT_THAT(error_of({folder / "empty"}),
              HasSubstr("found 0 folders and 1 file directly under it"));
  EXPECT_THAT(error_of({folder / "odd.bin"}),
              HasSubstr("neither a folder, a .tar shard, nor a list"));
  EXPECT_THAT(error_of({folder / "a", folder / "empty"}),
              HasSubstr("several sources must all be .tar"));
  EXPECT_THAT(error_of({"s3://bucket/a.tar"}),
              HasSubstr("unsupported: s3://bucket/a.tar: s3:// is not"));
  EXPECT_THAT(error_of({folder / "line\nbreak"}), HasSubstr("line\\x0abreak"));
  EXPECT_EQ(open_dataset({"file://" + folder.path().native()})->size(), 1u);
}

TEST(OpenDataset, ChoosesTheFormatByWhatLiesThere) {
  const TempDir folder;
  folder.write("images/c/1.jpg", "x");
  folder.write("shards/a.tar", TarText().add("1.jpg", "x").end().text());
  folder.write("list.TXT", "images/c/1.jpg 3\n");
  EXPECT_EQ(open_dataset({folder / "images"})->kind(), "image folder");
  EXPECT_EQ(open_dataset({folder / "shards"})->kind(), "webdataset shards");
  EXPECT_EQ(open_dataset({folder / "shards/a.tar"})->kind(), "webdataset shards");
  EXPECT_EQ(open_dataset({folder / "list.TXT"})->kind(), "file list");
}

TEST(Fingerprint, ChangesWithKeysSizesLabelsAndOrderOnly) {
  const auto of = [](const std::string& name, const TarText& tar) {
    const TempDir folder;
    return open_dataset({folder.write(name, TarText(tar).end().text())})->fingerprint();
  };
  const auto pair = [](const char* key, const char* image, const char* label) {
    return TarText().add(std::string(key) + ".jpg", image).add(std::string(key) + ".cls", label);
  };
  const std::string base = of("a.tar", pair("k", "x", "1"));
  EXPECT_EQ(of("elsewhere.tar", pair("k", "y", "1")), base);
  EXPECT_NE(of("a.tar", pair("l", "x", "1")), base);
  EXPECT_NE(of("a.tar", pair("k", "xx", "1")), base);
  EXPECT_NE(of("a.tar", pair("k", "x", "2")), base);
  EXPECT_NE(of("a.tar", TarText().add("1.jpg", "x").add("2.jpg", "x")),
            of("a.tar", TarText().add("2.jpg", "x").add("1.jpg", "x")));
}

}  // namespace
}  // namespace feedrace::formats
