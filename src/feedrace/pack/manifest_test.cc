// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/manifest.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/testing/temp_dir.h"

namespace feedrace::pack {
namespace {

using ::testing::HasSubstr;

Manifest example() {
  Manifest manifest;
  manifest.source = "0123456789abcdef";
  manifest.options = R"({"align":true,"seed":7})";
  manifest.classes_xxh3_128 = std::string(32, 'c');
  manifest.shards = {{"train-0.tar", 10240, 3, std::string(32, 'a')},
                     {"odd\xff.tar", 512, 1, std::string(32, '0')}};
  manifest.left_out = {{"cat/1", "corrupt_data: no picture"}, {"\xfe", "vanished"}};
  return manifest;
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

std::string refusal_of(const std::string& text) {
  const Result<Manifest> manifest = Manifest::from_json(text);
  if (manifest) return "taken";
  EXPECT_EQ(manifest.error().code, ErrorCode::kCorruptData);
  return manifest.error().message;
}

TEST(Manifest, ComesBackAsItWasWritten) {
  const Result<Manifest> again = Manifest::from_json(example().to_json());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, example());
  EXPECT_EQ(again->sample_count(), 4U);
  EXPECT_EQ(again->size_bytes(), 10752U);
}

TEST(Manifest, IsReadFromItsFolder) {
  const testing::TempDir folder;
  EXPECT_EQ(read_manifest(folder.path()).error().code, ErrorCode::kNotFound);
  folder.write(kManifestFile, example().to_json());
  EXPECT_EQ(*read_manifest(folder.path()), example());
  folder.write(kManifestFile, "{}");
  EXPECT_THAT(read_manifest(folder.path()).error().message, HasSubstr("manifest.json: "));
}

TEST(Manifest, OneThatIsNoneIsRefused) {
  const std::string good = example().to_json();
  EXPECT_EQ(refusal_of("[1]"), "no JSON object");
  EXPECT_EQ(refusal_of(good.substr(0, good.size() / 2)), "no JSON object");
  EXPECT_THAT(refusal_of(replaced(good, "\"version\": 1", "\"version\": 2")),
              HasSubstr("version 2"));
  EXPECT_THAT(refusal_of(replaced(good, "train-0.tar", "../train-0.tar")), HasSubstr("is none"));
  EXPECT_THAT(refusal_of(replaced(good, "train-0.tar", "..")), HasSubstr("is none"));
  EXPECT_THAT(refusal_of(replaced(good, std::string(32, 'a'), "A")), HasSubstr("checksum"));
  EXPECT_THAT(refusal_of(replaced(good, "\"samples\": 4", "\"samples\": 5")), HasSubstr("sums"));
  EXPECT_THAT(refusal_of(replaced(good, "\"left_out\"", "\"left\"")), HasSubstr("missing"));
  Manifest twice = example();
  twice.shards[1].name = twice.shards[0].name;
  EXPECT_THAT(refusal_of(twice.to_json()), HasSubstr("twice"));
}

}  // namespace
}  // namespace feedrace::pack
