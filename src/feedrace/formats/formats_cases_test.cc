// SPDX-License-Identifier: Apache-2.0
// Every case of tests/cases that is about tar shards, folders and labels, with its known answer.

#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/core/cores.h"
#include "feedrace/format.h"
#include "feedrace/formats/file_list.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/posix_file.h"
#include "feedrace/formats/test_cases.h"
#include "feedrace/formats/test_sha256.h"
#include "feedrace/formats/test_tar.h"
#include "feedrace/formats/webdataset.h"

namespace feedrace::formats {
namespace {

using feedrace::testing::TempDir;
using nlohmann::json;
using testing::cases_of;
using testing::is_reported;
using testing::lay_out;
using testing::message_fits;
using testing::name_of;

/// One line a sample: "key{field size sha256, ...}", fields sorted.
using Lines = std::vector<std::string>;

bool is_read(const json& expect, const std::string& field) {
  if (!expect.contains("read_only_fields")) return true;
  const json& only = expect.at("read_only_fields");
  return std::find(only.begin(), only.end(), field) != only.end();
}

Lines expected_samples(const json& samples, const json& expect) {
  Lines lines;
  for (const json& sample : samples) {
    std::map<std::string, std::string> fields;
    for (const auto& [name, value] : sample.at("fields").items()) {
      const std::string hash = is_read(expect, name) ? value.at("sha256").get<std::string>() : "-";
      fields[name] = fmt::format("{} {}", value.at("size").get<std::uint64_t>(), hash);
    }
    std::string line = name_of(sample, "key") + "{";
    for (const auto& [name, value] : fields) line += fmt::format("{} {}, ", name, value);
    lines.push_back(line + "}");
  }
  return lines;
}

Lines found_samples(const ShardSet& set, const json& expect) {
  Lines lines;
  for (std::uint64_t i = 0; i < set.entry_count(); ++i) {
    const std::string& shard = set.shards()[set.entry_shard(i)];
    std::map<std::string, std::string> fields;
    for (const ShardSet::Field& field : set.fields(i)) {
      const std::string name(field.name);
      std::string hash = "-";
      if (is_read(expect, name)) {
        std::string bytes(static_cast<std::size_t>(field.size_bytes), '\0');
        const auto fd = open_for_reading(shard);
        const auto got = read_at(fd->get(), shard, field.offset_bytes, bytes);
        EXPECT_TRUE(got && *got == bytes.size());
        hash = testing::sha256(bytes);
      }
      fields[name] = fmt::format("{} {}", field.size_bytes, hash);
    }
    std::string line = std::string(set.entry_key(i)) + "{";
    for (const auto& [name, value] : fields) line += fmt::format("{} {}, ", name, value);
    lines.push_back(line + "}");
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// Checks a result against every answer that the case allows.
void expect_samples(const json& expect, const Lines& found,
                    const std::vector<std::string>& warnings) {
  std::vector<Lines> fair = {expected_samples(expect.at("samples"), expect)};
  for (const json& other : expect.value("alternatives", json::array())) {
    fair.push_back(expected_samples(other.at("samples"), expect));
  }
  EXPECT_TRUE(std::find(fair.begin(), fair.end(), found) != fair.end())
      << "found:\n"
      << joined(found) << "expected:\n"
      << joined(fair[0]);
  for (const json& name : expect.value("must_be_reported", json::array())) {
    EXPECT_TRUE(is_reported(warnings, name.get<std::string>())) << joined(warnings);
  }
}

void check_tar(const json& one) {
  const json& expect = one.at("expect");
  const auto outcome = expect.at("outcome").get<std::string>();
  const TempDir folder;
  const std::string path = lay_out(one, folder / "in");
  const std::string file = base_name(path);
  const std::size_t before = anonymous_memory_bytes();
  try {
    const auto set = open_shards({path});
    EXPECT_NE(outcome, "error") << "no error";
    expect_samples(expect, found_samples(*set, expect), set->warnings());
    if (outcome == "error_or_flagged") {
      EXPECT_TRUE(is_reported(set->warnings(), file)) << joined(set->warnings());
    }
  } catch (const Error& error) {
    EXPECT_NE(outcome, "ok") << error.what();
    EXPECT_TRUE(message_fits(error.what(), expect, file)) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
  if (expect.contains("allocation_limit_mb")) {
    EXPECT_LT(anonymous_memory_bytes(),
              before + (expect.at("allocation_limit_mb").get<std::size_t>() << 20));
  }
}

TEST(FormatsCases, TarShardsGiveTheKnownSamples) {
  const std::vector<json> cases = cases_of("tar");
  EXPECT_EQ(cases.size(), 57u);
  for (const json& one : cases) {
    SCOPED_TRACE(one.at("id").get<std::string>());
    check_tar(one);
  }
}

TEST(FormatsCases, ShardsBeforeADamagedPlaceAreNamedAndTheSetIsRefused) {
  const TempDir folder;
  for (const json& one : cases_of("tar")) {
    if (one.at("id") == "tar_cut_in_data" || one.at("id") == "tar_ustar_plain") {
      lay_out(one, folder.path().string());
    }
  }
  try {
    open_dataset({folder.path().string()});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_NE(std::string(error.what()).find("tar_cut_in_data.tar"), std::string::npos);
  }
}

TEST(FormatsCases, ASampleWithoutItsLabelIsNamedAndNeverTakesTheNextOne) {
  const TempDir folder;
  for (const json& one : cases_of("tar")) {
    const json& expect = one.at("expect");
    if (!one.contains("incomplete_keys") && !expect.contains("incomplete_keys")) continue;
    const auto set = open_dataset({lay_out(one, folder / "in")});
    const json& incomplete =
        one.contains("incomplete_keys") ? one.at("incomplete_keys") : expect.at("incomplete_keys");
    ASSERT_EQ(set->size(), 4u);
    for (std::uint64_t i = 0; i < set->size(); ++i) {
      const bool is_incomplete = incomplete.at(0).get<std::string>() == set->key(i);
      const Result<std::int64_t> label = set->label(i);
      EXPECT_EQ(static_cast<bool>(label), !is_incomplete) << set->key(i);
      if (!label) {
        EXPECT_NE(label.error().message.find("no label"), std::string::npos);
      }
    }
    EXPECT_TRUE(is_reported(set->warnings(), "1 of 4 samples have no label"));
    return;
  }
  FAIL() << "the case is gone";
}

TEST(FormatsCases, SetsOfShardsKeepTheirBorders) {
  const std::vector<json> cases = cases_of("tar-set");
  EXPECT_EQ(cases.size(), 5u);
  for (const json& one : cases) {
    SCOPED_TRACE(one.at("id").get<std::string>());
    const json& expect = one.at("expect");
    const TempDir folder;
    const auto set = open_shards({lay_out(one, folder / "in")});
    EXPECT_EQ(set->entry_count(), expect.at("total").get<std::uint64_t>());
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = 0; i < set->shards().size(); ++i) {
      sizes.push_back(set->shard_begin(i + 1) - set->shard_begin(i));
    }
    EXPECT_EQ(sizes, expect.at("shard_sizes").get<std::vector<std::uint64_t>>());
    std::vector<std::string> lines;
    for (std::uint64_t i = 0; i < set->entry_count(); ++i) {
      std::string fields;
      for (const auto& field : set->fields(i))
        fields += (fields.empty() ? "" : ",") + std::string(field.name);
      lines.push_back(fmt::format("{}:{}{{{}}}", base_name(set->shards()[set->entry_shard(i)]),
                                  set->entry_key(i), fields));
      if (expect.contains("keys")) {
        const auto name = one.at("id").get<std::string>();
        EXPECT_EQ(set->entry_key(i), fmt::format("{}/{:06}", name, i));
        const Result<std::int64_t> label = set->label(i);
        EXPECT_TRUE(label && *label == static_cast<std::int64_t>(i % 7));
      }
    }
    if (expect.contains("samples_in_order")) {
      EXPECT_EQ(lines, expect.at("samples_in_order").get<std::vector<std::string>>());
    }
  }
}

std::vector<std::pair<std::string, std::int64_t>> expected_files(const json& samples) {
  std::vector<std::pair<std::string, std::int64_t>> files;
  for (const json& sample : samples) {
    const json& path = sample.at(0);
    files.emplace_back(path.is_object() ? name_of(path, "path") : path.get<std::string>(),
                       sample.at(1).get<std::int64_t>());
  }
  return files;
}

void check_folder(const json& one, const std::string& root) {
  const json& expect = one.at("expect");
  const auto outcome = expect.at("outcome").get<std::string>();
  try {
    const auto set = open_dataset({root});
    EXPECT_NE(outcome, "error") << "no error";
    EXPECT_EQ(set->classes(), expect.at("classes").get<std::vector<std::string>>());
    std::vector<std::pair<std::string, std::int64_t>> found;
    for (std::uint64_t i = 0; i < set->size(); ++i) {
      found.emplace_back(set->key(i), *set->label(i));
      EXPECT_EQ(set->path(i), root + "/" + set->key(i));
      EXPECT_EQ(set->where(i).find('\n'), std::string::npos);
      EXPECT_EQ(access(set->path(i).c_str(), F_OK), 0);
    }
    bool fair = found == expected_files(expect.at("samples"));
    for (const json& other : expect.value("alternatives", json::array())) {
      fair = fair || found == expected_files(other.at("samples"));
    }
    EXPECT_TRUE(fair) << found.size() << " samples: " << ::testing::PrintToString(found);
    for (const json& name : expect.value("must_be_reported", json::array())) {
      EXPECT_TRUE(is_reported(set->warnings(), name.get<std::string>())) << joined(set->warnings());
    }
  } catch (const Error& error) {
    EXPECT_NE(outcome, "ok") << error.what();
    EXPECT_TRUE(message_fits(error.what(), expect, base_name(root))) << error.what();
  }
}

void check_permission(const json& one, const std::string& root) {
  check_folder(one, root);
  for (const auto& [path, wanted] : one.at("read_errors").items()) {
    const Result<std::string> read = read_whole_file(root + "/" + path);
    EXPECT_FALSE(read);
    if (read) continue;
    EXPECT_NE(read.error().message.find(path), std::string::npos);
    EXPECT_NE(read.error().message.find(wanted.at(0).get<std::string>()), std::string::npos);
  }
}

TEST(FormatsCases, FoldersGiveTheKnownFilesAndClasses) {
  const std::vector<json> cases = cases_of("folder");
  EXPECT_EQ(cases.size(), 18u);
  for (const json& one : cases) {
    SCOPED_TRACE(one.at("id").get<std::string>());
    const TempDir folder;
    const std::string root = lay_out(one, folder / one.at("id").get<std::string>());
    if (one.value("needs", "") == "not root") {
      chmod(folder.path().c_str(), 0755);
      EXPECT_TRUE(testing::holds_for_ordinary_user([&] { check_permission(one, root); }));
    } else {
      check_folder(one, root);
    }
  }
}

/// Opens a shard whose only sample `k` has the case's file as its label.
void check_member_label(const json& one, const std::string& field) {
  const json& expect = one.at("expect");
  const std::string content =
      feedrace::testing::read_file(testing::cases_folder() + one.at("file").get<std::string>());
  const TempDir folder;
  const std::string path = folder.write(
      "labels.tar", testing::TarText().add("k.jpg", "x").add("k." + field, content).end().text());
  const auto set = open_dataset({path});
  const Result<std::int64_t> label = set->label(0);
  const auto outcome = expect.at("outcome").get<std::string>();
  if (!label) {
    const bool json_without_label =
        field == "json" && outcome == "ok" && !expect.at("value").contains("label");
    EXPECT_TRUE(outcome != "ok" || json_without_label) << label.error().message;
    if (outcome != "ok") {
      EXPECT_TRUE(message_fits(label.error().message, expect, "labels.tar", "k"))
          << label.error().message;
    }
    return;
  }
  EXPECT_NE(outcome, "error");
  const json value = expect.value("value", json());
  if (value.is_number()) {
    EXPECT_EQ(*label, value.get<std::int64_t>());
  } else if (value.contains("label")) {
    EXPECT_EQ(*label, value.at("label").get<std::int64_t>());
  } else {
    EXPECT_EQ(*label, -1) << "a document without a label gives none";
  }
}

void check_list(const json& one) {
  const json& expect = one.at("expect");
  const std::string path = testing::cases_folder() + one.at("file").get<std::string>();
  try {
    const auto list = open_dataset({path});
    EXPECT_EQ(expect.at("outcome"), "ok");
    std::vector<std::pair<std::string, std::int64_t>> found;
    for (std::uint64_t i = 0; i < list->size(); ++i)
      found.emplace_back(list->key(i), *list->label(i));
    EXPECT_EQ(found, expected_files(expect.at("entries")));
    EXPECT_EQ(list->path(0), folder_of(path) + "/" + list->key(0));
  } catch (const Error& error) {
    EXPECT_EQ(expect.at("outcome"), "error") << error.what();
    EXPECT_TRUE(message_fits(error.what(), expect, base_name(path))) << error.what();
  }
}

TEST(FormatsCases, LabelsAreWholeNumbersAndNothingElse) {
  const std::vector<json> cases = cases_of("label");
  EXPECT_EQ(cases.size(), 30u);
  for (const json& one : cases) {
    SCOPED_TRACE(one.at("id").get<std::string>());
    const auto sub = one.at("sub").get<std::string>();
    if (sub == "list") {
      check_list(one);
    } else {
      check_member_label(one, sub);
    }
    const json& expect = one.at("expect");
    if (sub != "json" || expect.at("outcome") != "ok") continue;
    const std::string text =
        feedrace::testing::read_file(testing::cases_folder() + one.at("file").get<std::string>());
    const Result<json> document = parse_json(text);
    ASSERT_TRUE(document);
    EXPECT_EQ(*document, expect.at("value"));
  }
}

}  // namespace
}  // namespace feedrace::formats
