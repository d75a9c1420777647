// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/shard_index.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/core/cores.h"
#include "feedrace/formats/index_place.h"
#include "feedrace/formats/test_tar.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

namespace fs = std::filesystem;
using feedrace::testing::TempDir;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
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

std::vector<std::string> keys_of(const ShardSet& set) {
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < set.size(); ++i) keys.push_back(set.key(i));
  return keys;
}

/// Names in a folder that are (or are not) the index.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string index_error(const fs::path& folder) {
  const auto files = FolderFiles::open_folder(folder);
  const auto index = ShardIndex::open(**files);
  return index ? "" : index.error().message;
}

TEST(ShardIndex, IsStoredBesideTheShardsAndFoundAgain) {
  const TempDir folder;
  folder.write("a.tar", shard("a", 2));
  folder.write("b.tar", shard("b", 1));
  const auto first = open_shards({folder.path()});
  EXPECT_THAT(first->warnings(), IsEmpty());
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.tar", "b.tar", "shards.frindex"));
  const auto meta_written = fs::last_write_time(folder.path() / "shards.frindex/meta.json");
  const auto second = open_shards({folder.path()});
  EXPECT_EQ(fs::last_write_time(folder.path() / "shards.frindex/meta.json"), meta_written);
  for (const auto* set : {first.get(), second.get()}) {
    EXPECT_THAT(keys_of(*set), ElementsAre("a0", "a1", "b0"));
    EXPECT_EQ(*set->label(1), 1);
    EXPECT_EQ(set->place(1).shard, 0u);
    EXPECT_EQ(set->place(1).offset_bytes, 2560u);
    EXPECT_EQ(set->place(1).size_bytes, 11u);
    EXPECT_EQ(set->path(2), folder / "b.tar");
    EXPECT_EQ(set->max_image_bytes(), 11u);
    EXPECT_DOUBLE_EQ(set->mean_image_bytes(), 31.0 / 3);
    EXPECT_EQ(set->where(1), "a.tar: sample a1.jpg (offset 2560, 11 bytes)");
    EXPECT_EQ(set->find(1, "b0"), 2u);
    EXPECT_EQ(set->find(0, "b0"), std::nullopt);
    EXPECT_EQ(set->field(2, "cls")->size_bytes, 1u);
  }
  EXPECT_EQ(first->fingerprint(), second->fingerprint());
  EXPECT_EQ(first->fingerprint().size(), 16u);
}

TEST(ShardIndex, IsTheSameForAnyNumberOfThreads) {
  std::vector<std::string> bytes;
  for (const std::size_t threads : {1u, 2u, 8u}) {
    const TempDir folder;
    for (int i = 0; i < 20; ++i)
      folder.write(fmt::format("{:02}.tar", i), shard(fmt::format("k{}_", i), i));
    OpenOptions options;
    options.thread_count = threads;
    open_shards({folder.path()}, options);
    std::string all;
    for (const std::string& name : names_in(folder.path() / "shards.frindex")) {
      if (name != "meta.json")
        all += feedrace::testing::read_file(folder.path() / "shards.frindex" / name);
    }
    bytes.push_back(all);
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_EQ(bytes[0], bytes[2]);
}

TEST(ShardIndex, NoticesAShardThatChangedOrCame) {
  const TempDir folder;
  folder.write("a.tar", shard("a", 2));
  folder.write("b.tar", shard("b", 2));
  const std::string before = open_shards({folder.path()})->fingerprint();
  folder.write("b.tar", shard("new", 3));
  const auto changed = open_shards({folder.path()});
  EXPECT_THAT(changed->warnings(), ElementsAre(HasSubstr("index refreshed: 1 of 2 shards")));
  EXPECT_THAT(keys_of(*changed), ElementsAre("a0", "a1", "new0", "new1", "new2"));
  EXPECT_NE(changed->fingerprint(), before);
  folder.write("a0.tar", shard("mid", 1));
  const auto more = open_shards({folder.path()});
  EXPECT_THAT(more->warnings(), ElementsAre(HasSubstr("index refreshed: 1 of 3 shards")));
  EXPECT_THAT(keys_of(*more), ElementsAre("a0", "a1", "mid0", "new0", "new1", "new2"));
  fs::remove(folder.path() / "a.tar");
  const auto less = open_shards({folder.path()});
  EXPECT_THAT(less->warnings(), ElementsAre(HasSubstr("such as a.tar")));
  EXPECT_THAT(keys_of(*less), ElementsAre("mid0", "new0", "new1", "new2"));
  EXPECT_THAT(open_shards({folder.path()})->warnings(), IsEmpty());
}

TEST(ShardIndex, DoesNotReadUnchangedShardsAgain) {
  const TempDir folder;
  const std::string a = folder.write("a.tar", shard("a", 2));
  folder.write("b.tar", shard("b", 2));
  open_shards({folder.path()});
  // Same size, same time, other content: only reading it again would show the new name.
  const auto time = fs::last_write_time(a);
  folder.write("a.tar", shard("z", 2));
  fs::last_write_time(a, time);
  folder.write("c.tar", shard("c", 1));
  EXPECT_THAT(keys_of(*open_shards({folder.path()})), ElementsAre("a0", "a1", "b0", "b1", "c0"));
  OpenOptions anew;
  anew.rebuild_index = true;
  EXPECT_THAT(keys_of(*open_shards({folder.path()}, anew)),
              ElementsAre("z0", "z1", "b0", "b1", "c0"));
}

TEST(ShardIndex, SeesALabelThatWasPutRightInTheMiddleOfAShard) {
  const TempDir folder;
  // Head and tail are the same before and after; only the time tells.
  const auto write = [&](const char* label) {
    const std::string large(100'000, 'x');
    return folder.write("a.tar", TarText()
                                     .add("1.jpg", large)
                                     .add("2.jpg", "x")
                                     .add("2.cls", label)
                                     .add("3.jpg", large)
                                     .end()
                                     .text());
  };
  const std::string path = write("4");
  const auto time = fs::last_write_time(path);
  EXPECT_EQ(*open_shards({path})->label(1), 4);
  write("5");
  fs::last_write_time(path, time + std::chrono::seconds(1));
  const auto set = open_shards({path});
  EXPECT_EQ(*set->label(1), 5);
  EXPECT_THAT(set->warnings(), Contains(HasSubstr("index refreshed: 1 of 1 shards")));
}

TEST(ShardIndex, KeepsIndexesOfDifferentOptionsApart) {
  const TempDir folder;
  folder.write(
      "a.tar",
      TarText().add("k.jpg", "x").add("k.cls", "1").add("k.json", "{\"label\": 2}").end().text());
  OpenOptions json;
  json.label_field = "json";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*open_shards({folder.path()})->label(0), 1);
    EXPECT_EQ(*open_shards({folder.path()}, json)->label(0), 2);
  }
  EXPECT_EQ(names_in(folder.path()).size(), 3u);
}

TEST(ShardIndex, CarriesWarningsOfTheShardsInItself) {
  const TempDir folder;
  folder.write("a.tar", TarText().add("k.jpg", "x").add("l.jpg", "", {.type = '2'}).text());
  const std::vector<std::string> first = open_shards({folder.path()})->warnings();
  EXPECT_THAT(
      first,
      Contains(HasSubstr("link members left out, as a link has no data of its own: a.tar l.jpg")));
  EXPECT_THAT(first, Contains(HasSubstr("end mark missing")));
  EXPECT_EQ(open_shards({folder.path()})->warnings(), first);
}

TEST(ShardIndex, FallsBackToTheCacheFolderAndThenToMemory) {
  const TempDir folder;
  const TempDir cache;
  folder.write("a.tar", shard("a", 2));
  // A file where the index's folder would be put in place: works for root as well, unlike chmod.
  folder.write("shards.frindex", "not a folder");
  OpenOptions options;
  options.cache_dir = cache.path();
  EXPECT_THAT(keys_of(*open_shards({folder.path()}, options)), ElementsAre("a0", "a1"));
  EXPECT_THAT(names_in(cache.path()), ElementsAre(HasSubstr("shards-")));
  const auto again = open_shards({folder.path()}, options);
  EXPECT_THAT(again->warnings(), IsEmpty());

  options.cache_dir = folder.write("file", "no folder either");
  const auto in_memory = open_shards({folder.path()}, options);
  EXPECT_THAT(in_memory->warnings(), ElementsAre(HasSubstr("shards.frindex: not a folder"),
                                                 HasSubstr("index kept in memory only")));
  EXPECT_THAT(keys_of(*in_memory), ElementsAre("a0", "a1"));
  EXPECT_EQ(*in_memory->label(1), 1);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.tar", "file", "shards.frindex"));
}

TEST(ShardIndex, SaysWhereItIsStored) {
  const TempDir folder;
  const TempDir cache;
  folder.write("a.tar", shard("a", 2));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(open_shards({folder.path()})->index_path(), folder / "shards.frindex");
  }
  fs::remove_all(folder.path() / "shards.frindex");
  folder.write("shards.frindex", "not a folder");
  OpenOptions options;
  options.cache_dir = cache.path();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(open_shards({folder.path()}, options)->index_path(), HasSubstr(cache / "shards-"));
  }
  options.cache_dir = folder.write("file", "no folder either");
  EXPECT_EQ(open_shards({folder.path()}, options)->index_path(), "");
  options.store_index = StoreIndex::kMust;
  try {
    open_shards({folder.path()}, options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.what(), HasSubstr("the index can't be stored"));
  }
}

TEST(ShardIndex, IsNotWrittenWhereThatIsNotWanted) {
  const TempDir folder;
  const TempDir cache;
  folder.write("a.tar", shard("a", 2));
  OpenOptions options;
  options.cache_dir = cache.path();
  options.store_index = StoreIndex::kNever;
  const auto fresh = open_shards({folder.path()}, options);
  EXPECT_THAT(keys_of(*fresh), ElementsAre("a0", "a1"));
  EXPECT_THAT(fresh->warnings(), IsEmpty());
  EXPECT_EQ(fresh->index_path(), "");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.tar"));

  open_shards({folder.path()});
  EXPECT_EQ(open_shards({folder.path()}, options)->index_path(), folder / "shards.frindex");
  folder.write("b.tar", shard("b", 1));
  const auto meta_written = fs::last_write_time(folder.path() / "shards.frindex/meta.json");
  const auto stale = open_shards({folder.path()}, options);
  EXPECT_THAT(keys_of(*stale), ElementsAre("a0", "a1", "b0"));
  EXPECT_THAT(stale->warnings(), IsEmpty());
  EXPECT_EQ(stale->index_path(), "");
  EXPECT_EQ(fs::last_write_time(folder.path() / "shards.frindex/meta.json"), meta_written);
  EXPECT_THAT(names_in(cache.path()), IsEmpty());
}

TEST(ShardIndex, IsMadeByTwoProcessesAtOnceWithoutHarm) {
  const TempDir folder;
  for (int i = 0; i < 8; ++i)
    folder.write(fmt::format("{}.tar", i), shard(fmt::format("k{}_", i), 20));
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      int rc = 1;
      try {
        rc = open_shards({folder.path()})->size() == 160 ? 0 : 2;
      } catch (const std::exception&) {
        rc = 3;
      }
      _exit(rc);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_EQ(open_shards({folder.path()})->size(), 160u);
  EXPECT_EQ(names_in(folder.path()).size(), 9u) << "no temporary folder is left";
}

TEST(ShardIndex, TidiesUpAfterBuildsThatDied) {
  const TempDir folder;
  folder.write("a.tar", shard("a", 1));
  folder.write(".shards.frindex.tmp-dead00/keys.npy", "x");
  folder.write(".shards.frindex.tmp-young0/keys.npy", "x");
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(3);
  fs::last_write_time(folder.path() / ".shards.frindex.tmp-dead00", old);
  open_shards({folder.path()});
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre(".shards.frindex.tmp-young0", "a.tar", "shards.frindex"));
}

TEST(ShardIndex, IsMadeAnewWhenItIsDamaged) {
  for (const char* column : {"meta.json", "offset.npy", "keys.npy", "first_member.npy"}) {
    const TempDir folder;
    folder.write("a.tar", shard("a", 2));
    open_shards({folder.path()});
    const fs::path file = folder.path() / "shards.frindex" / column;
    fs::resize_file(file, fs::file_size(file) - 2);
    EXPECT_THAT(index_error(folder.path() / "shards.frindex"),
                HasSubstr(column == std::string("meta.json") ? "meta.json" : column));
    EXPECT_THAT(keys_of(*open_shards({folder.path()})), ElementsAre("a0", "a1")) << column;
    EXPECT_EQ(index_error(folder.path() / "shards.frindex"), "") << column;
  }
}

/// Overwrites 8 bytes of a column's data.
void poke(const fs::path& file, std::size_t index, std::uint64_t value) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(kNpyHeaderBytes + 8 * index));
  stream.write(reinterpret_cast<const char*>(&value), 8);
}

TEST(ShardIndex, NeverLeadsOutsideItselfWhenItLies) {
  const TempDir folder;
  folder.write("a.tar", shard("a", 3));
  open_shards({folder.path()});
  const fs::path index = folder.path() / "shards.frindex";
  poke(index / "key_begin.npy", 1, ~std::uint64_t{0});
  poke(index / "first_member.npy", 1, ~std::uint64_t{0});
  poke(index / "offset.npy", 4, ~std::uint64_t{0});
  const auto set = open_shards({folder.path()});
  EXPECT_EQ(set->key(0), "");
  EXPECT_EQ(set->key(1), "");
  EXPECT_EQ(set->place(0).size_bytes, 0u);
  EXPECT_THAT(set->fields(1), IsEmpty());
  EXPECT_EQ(set->place(2).size_bytes, 0u) << "an offset behind the end of the shard";
  EXPECT_THAT(set->where(2), HasSubstr("a2.jpg"));
}

TEST(ShardIndex, OfAnotherVersionIsMadeAnewAndThatIsSaid) {
  const TempDir folder;
  folder.write("a.tar", shard("a", 2));
  const std::string before = open_shards({folder.path()})->fingerprint();
  std::string meta = feedrace::testing::read_file(folder.path() / "shards.frindex/meta.json");
  const std::string current = fmt::format("\"version\": {}", kIndexVersion);
  ASSERT_NE(meta.find(current), std::string::npos);
  meta.replace(meta.find(current), current.size(), "\"version\": 1");
  folder.write("shards.frindex/meta.json", meta);
  const auto anew = open_shards({folder.path()});
  EXPECT_THAT(anew->warnings(),
              ElementsAre(AllOf(HasSubstr(folder.path().native() + ": index made anew: "),
                                HasSubstr("an index of version 1, where this program has"))));
  EXPECT_EQ(anew->fingerprint(), before);
  EXPECT_THAT(open_shards({folder.path()})->warnings(), IsEmpty());
}

TEST(ShardIndex, CanBeReadByNumpy) {
  if (std::system("python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "no numpy here";
  const TempDir folder;
  folder.write("a.tar", shard("a", 3));
  folder.write("b.tar", shard("b", 2));
  open_shards({folder.path()});
  const std::string script = folder.write("read.py", R"py(
import json, sys, numpy
load = lambda name: numpy.load(f"{sys.argv[1]}/shards.frindex/{name}.npy", mmap_mode="r")
assert load("shard").tolist() == [0, 0, 0, 1, 1] and load("shard").dtype == numpy.uint32
assert load("label").tolist() == [0, 1, 2, 0, 1] and load("label").dtype == numpy.int64
assert load("label_state").tolist() == [1] * 5 and load("label_state").dtype == numpy.uint8
assert load("first_member").tolist() == [0, 2, 4, 6, 8, 10]
begin, keys = load("key_begin"), load("keys")
assert [keys[a:b].tobytes() for a, b in zip(begin, begin[1:])] == [b"a0", b"a1", b"a2", b"b0", b"b1"]
fields = json.load(open(f"{sys.argv[1]}/shards.frindex/meta.json"))["fields"]
assert [fields[i] for i in load("field")] == ["jpg", "cls"] * 5
assert load("size").tolist() == [10, 1, 11, 1, 12, 1, 10, 1, 11, 1]
assert load("offset").dtype == numpy.uint64 and load("offset").offset % 64 == 0
)py");
  EXPECT_EQ(std::system(fmt::format("python3 {} {}", script, folder.path().native()).c_str()), 0);
}

/// A column of zeros but for its last value; takes no room on the disk.
void write_sparse_column(const TempDir& folder, const ColumnType& column, std::uint64_t count,
                         std::size_t value_bytes, std::uint64_t last = 0) {
  const std::string path =
      folder.write(fmt::format("{}.npy", column.name), npy_header(column.type, count));
  fs::resize_file(path, kNpyHeaderBytes + count * value_bytes);
  if (last != 0) poke(path, count - 1, last);
}

TEST(ShardIndex, OpensAHundredMillionSamplesWithoutMemoryOfItsOwn) {
  constexpr std::uint64_t kSamples = 100'000'000;
  const TempDir folder;
  IndexMeta meta;
  meta.fields = {"jpg"};
  meta.shards = {
      {"a.tar", {1, 1, "0"}, kSamples, kSamples, kSamples, "0123456789abcdef", {}, {}, {}}};
  meta.key_fingerprint = meta.key_set_fingerprint = "0123456789abcdef";
  meta.sample_count = meta.member_count = meta.image_count = kSamples;
  folder.write(kMetaFile, meta.to_json());
  for (const ColumnType& column : {columns::kLabel, columns::kOffset, columns::kSize}) {
    write_sparse_column(folder, column, kSamples, 8);
  }
  write_sparse_column(folder, columns::kShard, kSamples, 4);
  write_sparse_column(folder, columns::kLabelState, kSamples, 1);
  write_sparse_column(folder, columns::kField, kSamples, 2);
  write_sparse_column(folder, columns::kKeys, 8 * kSamples, 1);
  write_sparse_column(folder, columns::kFirstMember, kSamples + 1, 8, kSamples);
  write_sparse_column(folder, columns::kKeyBegin, kSamples + 1, 8, 8 * kSamples);
  const auto files = FolderFiles::open_folder(folder.path());
  const std::size_t before = anonymous_memory_bytes();
  const auto index = ShardIndex::open(**files);
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index->members(kSamples - 1).second, kSamples);
  EXPECT_EQ(index->label(kSamples / 2), 0);
  // A hundredth of a byte a sample: the address sanitizer keeps what was freed, so not nothing.
  EXPECT_LE(anonymous_memory_bytes(), before + kSamples / 100);
}

TEST(IndexName, FollowsTheSourceAndTellsSetsApart) {
  const TempDir folder;
  EXPECT_EQ(index_name({folder.path()}, ""), "shards.frindex");
  EXPECT_EQ(index_name({folder.path().native() + "/"}, ""), "shards.frindex");
  EXPECT_EQ(index_name({"d/train-7.tar"}, ""), "train-7.tar.frindex");
  const std::string pattern = index_name({"d/train-{0..9}.tar"}, "");
  EXPECT_THAT(pattern, HasSubstr("train-_0..9_.tar-"));
  EXPECT_NE(pattern, index_name({"d/train-[0..9].tar"}, ""));
  EXPECT_NE(index_name({"a.tar"}, "x"), index_name({"a.tar"}, "y"));
  EXPECT_NE(index_name({"a.tar", "b.tar"}, ""), index_name({"a.tar", "c.tar"}, ""));
  EXPECT_LT(index_name({std::string(250, 'n')}, "").size(), 200u);
}

TEST(Npy, ReadsWhatNumpyItselfWrites) {
  const TempDir folder;
  std::string header = "{'descr': '<u4', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  const std::string text = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" +
                           std::string("\x05\0\0\0\x06\0\0\0", 8);
  const std::string path = folder.write("a.npy", text);
  const auto fd = open_for_reading(path);
  const auto map = NpyMap::map(fd->get(), path, "<u4");
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_THAT(map->values<std::uint32_t>(), ElementsAre(5, 6));
  EXPECT_FALSE(NpyMap::map(fd->get(), path, "<u8"));
  const std::string cut = folder.write("b.npy", text.substr(0, text.size() - 1));
  EXPECT_THAT(NpyMap::map(open_for_reading(cut)->get(), cut, "<u4").error().message,
              HasSubstr("cut: 2 values of 4 bytes do not fit"));
}

}  // namespace
}  // namespace feedrace::formats
