// SPDX-License-Identifier: Apache-2.0
// Indexes of other loaders that are cut, lie or are something else: an error that names the file,
// or the samples that are there; nothing in between.

#include "feedrace/exchange/foreign_index.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/exchange/foreign_scan.h"
#include "feedrace/exchange/test_indexes.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::exchange {
namespace {

using feedrace::testing::read_file;
using feedrace::testing::TempDir;
using ::testing::HasSubstr;

/// A shard with an index beside it.
class ForeignIndexTest : public ::testing::Test {
 protected:
  ForeignIndexTest() : shard_(dir_.write(testing::kShard, testing::shard_text())) {}

  /// Empty where the index at `path` gives the samples that the shard has; else what is said.
  std::string outcome(const std::string& path) {
    try {
      const auto index = open_foreign_index(path);
      const Result<ForeignShard> foreign = index->shard(shard_);
      if (!foreign) return checked(foreign.error().message);
      const Result<formats::ShardScan> scanned =
          scan_by_index(shard_, *foreign, {"auto", "label", nullptr});
      if (!scanned) return checked(scanned.error().message);
      EXPECT_EQ(scanned->sample_count(), testing::kSampleCount);
      EXPECT_EQ(scanned->keys, "a/0a/1b");
      EXPECT_EQ(scanned->label, std::vector<std::int64_t>(3, 7));
      EXPECT_EQ(scanned->offset_bytes.back(), 7168);
      return "";
    } catch (const Error& error) {
      return checked(error.what());
    }
  }

  std::string outcome_of(const std::string& name, std::string_view text) {
    return outcome(dir_.write(name, text));
  }

  /// Of an Energon folder with this .info.json, whose database is whole.
  std::string outcome_of_info(std::string_view json) {
    write_database();
    dir_.write(".nv-meta/.info.json", json);
    return outcome(dir_ / ".nv-meta");
  }
  /// Of one whose database was changed by `more`.
  std::string outcome_of_database(const std::string& more) {
    dir_.write(".nv-meta/.info.json", testing::kEnergonJson);
    write_database(more);
    return outcome(dir_ / ".nv-meta");
  }
  std::string write_database(const std::string& more = "") {
    const std::string path = dir_.write(".nv-meta/index.sqlite", "");
    testing::write_energon_database(path, more);
    return path;
  }

  /// Every beginning of a text but the whole, and the whole without its last line end.
  void expect_cuts_refused(const std::string& name, std::string_view text) {
    EXPECT_EQ(outcome_of(name, text), "");
    const std::size_t whole = text.size() - (text.ends_with('\n') ? 1 : 0);
    for (std::size_t size = 0; size < whole; ++size) {
      EXPECT_NE(outcome_of(name, text.substr(0, size)), "") << name << " of " << size << " bytes";
    }
  }

  TempDir dir_;
  const std::string shard_;

 private:
  static std::string checked(const std::string& message) {
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    const bool names_file = message.find("t-0.") != std::string::npos ||
                            message.find("list.json") != std::string::npos ||
                            message.find(".nv-meta/") != std::string::npos;
    EXPECT_TRUE(names_file) << message;
    return message;
  }
};

using DaliIndexTest = ForeignIndexTest;
using WidsIndexTest = ForeignIndexTest;
using EnergonIndexTest = ForeignIndexTest;

TEST_F(DaliIndexTest, CutAtAnyByteIsRefused) { expect_cuts_refused("t-0.idx", testing::kDaliText); }

TEST_F(DaliIndexTest, LiesAreRefusedWithTheirLine) {
  const struct {
    const char* text;
    const char* reason;
  } cases[] = {
      {"", "line 1 begins with \"\", not v1.2"},
      {"v1.1 1\njpg 512 600\n", "line 1 begins with \"v1.1 1\""},
      {"v1.2\n", "line 1 has no number of samples"},
      {"v1.2 -1\n", "line 1 has no number of samples"},
      {"v1.2 18446744073709551616\n", "line 1 has no number of samples"},
      {"v1.2 18446744073709551615\n", "line 2: it ends after 0 of 18446744073709551615 samples"},
      {"v1.2 1\njpg 512 600 a/0.jpg\njpg 3072 600 a/1.jpg\n", "line 3: more lines than the 1"},
      {"v1.2 2\njpg 512 600 a/0.jpg\njpg 3072 600\n", "line 3 is no sample"},
      {"v1.2 1\njpg 512 0x10 a/0.jpg\n", "line 2 is no sample"},
      {"v1.2 1\njpg 512 600 a/0.jpg cls\n", "line 2 is no sample"},
      {"v1.2 1\n\n", "line 2 is no sample"},
      {"v1.2 1\njpg 18446744073709551615 1 a/0.jpg\n", "something else than the shard"},
      {"v1.2 1\njpg 512 18446744073709551615 a/0.jpg\n", "something else than the shard"},
      {"v1.2 1\njpg 512 600 \xff\xfe.jpg\n", "\\xff\\xfe.jpg of 600 bytes"},
      {"v1.2 1\njpg 512 600 .\n", "line 2: extension \"jpg\" of ., whose name says another"},
      {"v1.2 1\npng 512 600 a/0.jpg\n", "extension \"png\" of a/0.jpg"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(outcome_of("t-0.idx", one.text), HasSubstr(one.reason)) << one.text;
  }
  EXPECT_THAT(outcome_of("t-0.idx", std::string("v1.2 1\njpg 512 600 a/0\0.jpg\n", 27)),
              HasSubstr("a/0\\x00.jpg"));
}

TEST_F(DaliIndexTest, WhatIsNoTextIsRefusedWithoutReadingIt) {
  const std::string path = dir_.write("t-0.idx", "v1.2 3\n");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // Of holes.
  EXPECT_THAT(outcome(path), HasSubstr("t-0.idx: 1.1 TB, more than an index has"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(outcome(dir_.path().string()), HasSubstr("t-0.idx: not a regular file"));
}

TEST_F(WidsIndexTest, CutAtAnyByteIsRefused) {
  expect_cuts_refused("list.json", testing::kWidsText);
}

TEST_F(WidsIndexTest, LiesAreRefusedWithTheirEntry) {
  const auto list = [](const std::string& shards) {
    return R"({"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": )" + shards + "}";
  };
  const struct {
    std::string text;
    const char* reason;
  } cases[] = {
      {"", "no shard list of wids"},
      {"\xff", "no shard list of wids"},
      {"[]", "no shard list of wids"},
      {"{}", "no shard list of wids"},
      {R"({"shardlist": []})", "is not there"},
      {R"({"__kind__": "x", "wids_version": 1, "shardlist": []})", "\"__kind__\" is \"x\""},
      {R"({"__kind__": "wids-shard-index-v1", "wids_version": 2, "shardlist": []})",
       "\"wids_version\" is 2"},
      {std::string(1'000'000, '['), "no shard list of wids"},
      {list("5"), "no shard list of wids"},
      {list(R"({"a": {"url": "t-0.tar", "nsamples": 3}})"), "no shard list of wids"},
      {list("[5]"), "no shard list of wids"},
      {list("[]"), "knows no shard t-0.tar"},
      {list(R"([{"url": 5, "nsamples": 3}])"), "no shard list of wids"},
      {list(R"([{"url": "t-0.tar"}])"), "no shard list of wids"},
      {list("[{\"url\": \"t-0.tar\xff\", \"nsamples\": 3}]"), "no shard list of wids"},
      {list(R"([{"url": "t-0.tar", "nsamples": -3}])"), "entry 1: -3 is no number of samples"},
      {list(R"([{"url": "t-0.tar", "nsamples": 3.0}])"), "entry 1: 3.0 is no number"},
      {list(R"([{"url": "t-0.tar", "nsamples": "3"}])"), "entry 1: \"3\" is no number"},
      {list(R"([{"url": "t-0.tar", "nsamples": 1e999}])"), "no shard list of wids"},
      {list(R"([{"url": "t-0.tar", "nsamples": 18446744073709551616}])"), "entry 1: 1.8446"},
      {list(
           R"([{"url": "x.tar", "nsamples": 1}, {"url": "t-0.tar", "nsamples": 3, "filesize": []}])"),
       "entry 2: [] is no number"},
      {list(R"([{"url": "t-0.tar", "nsamples": 3}, {"url": "/x/t-0.tar", "nsamples": 3}])"),
       "entry 2: shard t-0.tar is in it twice"},
      {list(R"([{"url": "t-0.tar", "nsamples": 18446744073709551615}])"),
       "18446744073709551615 samples, and there are 3"},
      {list(R"([{"url": "t-0.tar", "nsamples": 3, "filesize": 8703}])"),
       "a file of 8703 bytes, and it has 8704"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(outcome_of("list.json", one.text), HasSubstr(one.reason)) << one.text.substr(0, 99);
  }
}

TEST_F(EnergonIndexTest, InfoCutAtAnyByteIsRefused) {
  EXPECT_EQ(outcome_of_info(testing::kEnergonJson), "");
  const std::string_view json = testing::kEnergonJson;
  for (std::size_t size = 0; size < json.size(); ++size) {
    EXPECT_NE(outcome_of_info(json.substr(0, size)), "") << size;
  }
  std::filesystem::remove(dir_ / ".nv-meta/.info.json");
  const std::string_view yaml = testing::kEnergonYaml;
  for (std::size_t size = 0; size <= yaml.size(); ++size) {
    dir_.write(".nv-meta/.info.yaml", yaml.substr(0, size));
    EXPECT_EQ(outcome(dir_ / ".nv-meta").empty(), size + 1 >= yaml.size()) << size;
  }
}

TEST_F(EnergonIndexTest, LiesOfTheInfoAreRefusedWithTheirLine) {
  const struct {
    std::string text;
    const char* reason;
  } cases[] = {
      {"\xff", "it is no JSON"},
      {std::string(1'000'000, '['), "it is no JSON"},
      {"[]", "there are none"},
      {R"({"shard_counts": [3]})", "there are none"},
      {R"({"shard_counts": {}})", "there are none"},
      {R"({"shard_counts": {"t-0.tar": -3}})", "that of t-0.tar is no number"},
      {R"({"shard_counts": {"t-0.tar": 3.0}})", "that of t-0.tar is no number"},
      {R"({"shard_counts": {"t-0.tar": 18446744073709551615}})", "and there are 3"},
      {R"({"shard_counts": {"t-1.tar": 3}})", "knows no shard t-0.tar"},
      {R"({"shard_counts": {"a/t-0.tar": 3, "b/t-0.tar": 3}})", "two shards of the name t-0.tar"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(outcome_of_info(one.text), HasSubstr(one.reason)) << one.text.substr(0, 99);
  }
  std::filesystem::remove(dir_ / ".nv-meta/.info.json");
  const struct {
    const char* text;
    const char* reason;
  } yamls[] = {
      {"", "there are none"},
      {"\xff\xfe\n", "there are none"},
      {"shard_counts: {t-0.tar: 3}\n", "there are none"},
      {"shard_counts:\n  t-0.tar: -3\n",
       ".info.yaml: no \"shard_counts\" of shard names and "
       "numbers: line 2 is no shard and number"},
      {"shard_counts:\n  x.tar: 1\n\n  t-0.tar: 99999999999999999999\n", "line 4 is no shard"},
      {"shard_counts:\n  t-0.tar: 3 # three\n", "line 2 is no shard"},
      {"shard_counts:\n  t-0.tar\xff: 3\n", "knows no shard t-0.tar"},
  };
  for (const auto& one : yamls) {
    dir_.write(".nv-meta/.info.yaml", one.text);
    EXPECT_THAT(outcome(dir_ / ".nv-meta"), HasSubstr(one.reason)) << one.text;
  }
}

TEST_F(EnergonIndexTest, DatabaseCutAtAnyByteIsRefused) {
  EXPECT_EQ(outcome_of_database(""), "");
  const std::string path = dir_ / ".nv-meta/index.sqlite";
  const std::string whole = read_file(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    dir_.write(".nv-meta/index.sqlite", whole.substr(0, size));
    EXPECT_NE(outcome(path), "") << size;
  }
}

TEST_F(EnergonIndexTest, DatabaseWithAnyByteChangedIsRefusedOrTheSame) {
  EXPECT_EQ(outcome_of_database(""), "");
  const std::string path = dir_ / ".nv-meta/index.sqlite";
  std::string content = read_file(path);
  std::size_t refused = 0;
  for (char& byte : content) {
    byte = static_cast<char>(~byte);
    dir_.write(".nv-meta/index.sqlite", content);
    refused += outcome(path).empty() ? 0 : 1;  // Checks message or samples.
    byte = static_cast<char>(~byte);
  }
  EXPECT_GT(refused, 200);
}

TEST_F(EnergonIndexTest, LiesOfTheDatabaseAreRefused) {
  const struct {
    const char* more;
    const char* reason;
  } cases[] = {
      {"UPDATE sample_parts SET content_byte_offset = -1", "place is no number"},
      {"UPDATE sample_parts SET content_byte_size = NULL", "place is no number"},
      {"UPDATE sample_parts SET content_byte_size = 9223372036854775807", "something else"},
      {"UPDATE samples SET sample_key = x'ff'", "key is no text"},
      {"UPDATE samples SET sample_key = NULL", "key is no text"},
      {"DELETE FROM sample_parts", "it lacks a/0.jpg"},
      {"INSERT INTO sample_parts SELECT a.* FROM sample_parts a, sample_parts b",
       "than fit into it"},
      {"DROP TABLE samples", "no tables samples and sample_parts"},
      {"ALTER TABLE samples DROP COLUMN sample_key", "no such column"},
      {"DROP TABLE samples; CREATE VIEW samples AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL "
       "SELECT "
       "i + 1 FROM n) SELECT 0 AS tar_file_id, 'a' AS sample_key, i AS sample_index FROM n",
       "no tables samples and sample_parts"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(outcome_of_database(one.more), HasSubstr(one.reason)) << one.more;
  }
}

TEST_F(EnergonIndexTest, WhatIsNoDatabaseIsRefused) {
  dir_.write(".nv-meta/.info.json", testing::kEnergonJson);
  const std::string path = dir_.write(".nv-meta/index.sqlite", std::string(4096, 'x'));
  EXPECT_THAT(outcome(path), HasSubstr("file is not a database"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(outcome(dir_ / ".nv-meta"),
              HasSubstr(".nv-meta/index.sqlite: not a regular file, as Energon's index is"));
}

}  // namespace
}  // namespace feedrace::exchange
