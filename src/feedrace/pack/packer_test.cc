// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/formats/webdataset.h"
#include "feedrace/pack.h"
#include "feedrace/pack/manifest.h"
#include "feedrace/pack/sample_reader.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::pack {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempDir;

/// Two classes of `count` files; no picture is ever looked into.
void make_folder(const TempDir& dir, int count) {
  for (int i = 0; i < count; ++i) {
    dir.write(fmt::format("src/cat/{:03}.jpg", i), fmt::format("cat {}", i));
    dir.write(fmt::format("src/dog/{:03}.jpg", i), std::string(static_cast<std::size_t>(i), 'd'));
  }
}

PackOptions options_of(const TempDir& dir) {
  PackOptions options;
  options.sources = {dir / "src"};
  options.folder = dir / "out";
  options.thread_count = 2;
  return options;
}

std::string error_of(Packer& packer) {
  try {
    packer.run();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

std::string refusal_of(const PackOptions& options) {
  try {
    const Packer packer(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Packer, KeepsKeysLabelsAndOrder) {
  const TempDir dir;
  make_folder(dir, 30);
  PackOptions options = options_of(dir);
  options.shard_count = 4;
  const PackReport report = Packer(options).run();
  const auto folder = formats::open_dataset(options.sources);
  EXPECT_EQ(report.key_fingerprint, folder->key_fingerprint());
  const auto shards = formats::open_dataset({options.folder});
  EXPECT_EQ(shards->key_fingerprint(), folder->key_fingerprint());
  EXPECT_EQ(shards->size(), 60U);
}

TEST(Packer, ShufflesByItsSeed) {
  const TempDir dir;
  make_folder(dir, 30);
  PackOptions options = options_of(dir);
  options.shuffle = true;
  const auto folder = formats::open_dataset(options.sources);
  std::vector<std::string> orders = {folder->key_fingerprint()};
  for (const std::uint64_t seed : {1, 2}) {
    options.seed = seed;
    options.folder = dir / fmt::format("out{}", seed);
    orders.push_back(Packer(options).run().key_fingerprint);
    EXPECT_EQ(formats::open_dataset({options.folder})->key_set_fingerprint(),
              folder->key_set_fingerprint());
  }
  EXPECT_THAT(std::set<std::string>(orders.begin(), orders.end()), ::testing::SizeIs(3));
}

TEST(Packer, PlansTheSizesThatItMakes) {
  const TempDir dir;
  make_folder(dir, 30);
  for (const bool align : {false, true}) {
    PackOptions options = options_of(dir);
    options.folder = dir / fmt::format("out{}", align ? 1 : 0);
    options.align = align;
    options.shard_size_bytes = 40'000;
    Packer packer(options);
    const PackReport report = packer.run();
    EXPECT_EQ(report.size_bytes, packer.plan().size_bytes);
    EXPECT_EQ(report.shard_count, packer.plan().shard_count);
    EXPECT_GT(report.shard_count, 1U);
    EXPECT_LE(packer.plan().largest_shard_bytes, options.shard_size_bytes);
  }
}

/// Files that are others than they were when the run was planned, each in a way of its own.
void change_files(const TempDir& dir) {
  std::filesystem::remove(dir / "src/cat/001.jpg");
  dir.write("src/cat/002.jpg", "longer than it was");
  dir.write("src/dog/000.jpg", "not empty any more");
  std::filesystem::last_write_time(
      dir / "src/dog/004.jpg",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  std::filesystem::resize_file(dir / "src/dog/005.jpg", 2);
}

TEST(Packer, StopsAtFilesThatChangedSinceThePlan) {
  const TempDir dir;
  make_folder(dir, 8);
  Packer packer(options_of(dir));
  change_files(dir);
  EXPECT_THAT(error_of(packer), AllOf(HasSubstr("cat/001.jpg"), HasSubstr("--on-error skip")));
  EXPECT_FALSE(std::filesystem::exists(dir / "out/manifest.json"));
  EXPECT_FALSE(std::filesystem::exists(dir / "out/shard-000000.tar"));
}

TEST(Packer, ListsFilesThatChangedSinceThePlan) {
  const TempDir dir;
  make_folder(dir, 8);
  PackOptions options = options_of(dir);
  options.on_error = OnSourceError::kSkip;
  Packer packer(options);
  change_files(dir);
  const PackReport report = packer.run();
  EXPECT_EQ(report.sample_count, 11U);
  EXPECT_EQ(report.failed_count, 5U);
  const Result<Manifest> manifest = read_manifest(options.folder);
  ASSERT_TRUE(manifest) << manifest.error().message;
  std::vector<std::string> keys;
  for (const Manifest::LeftOut& one : manifest->left_out) keys.push_back(one.key);
  EXPECT_THAT(keys, ::testing::ElementsAre("cat/001.jpg", "cat/002.jpg", "dog/000.jpg",
                                           "dog/004.jpg", "dog/005.jpg"));
  EXPECT_EQ(formats::open_dataset({options.folder})->size(), 11U);
}

/// Larger than what is held in memory at a time.
std::string large_content() {
  std::string content(SampleReader::kPieceBytes + SampleReader::kPieceBytes / 2 + 13, 'x');
  for (std::size_t i = 0; i < content.size(); i += 4099) content[i] = static_cast<char>(i / 4099);
  return content;
}

std::string field_of(const std::string& folder, std::uint64_t entry, std::string_view name) {
  const auto set = formats::open_shards({folder});
  const auto field = set->field(entry, name);
  if (!field) return "none";
  const std::string shard = testing::read_file(set->shards()[set->entry_shard(entry)]);
  return shard.substr(field->offset_bytes, field->size_bytes);
}

TEST(Packer, StreamsLargeMembers) {
  const TempDir dir;
  make_folder(dir, 2);
  dir.write("src/cat/000.npy", large_content());
  const PackOptions options = options_of(dir);
  Packer(options).run();
  EXPECT_EQ(field_of(options.folder, 0, "npy"), large_content());
  EXPECT_EQ(field_of(options.folder, 1, "jpg"), "cat 1");
}

TEST(Packer, TakesBackASampleThatFailsInTheMiddle) {
  const TempDir dir;
  make_folder(dir, 4);
  dir.write("src/cat/001.npy", large_content());
  PackOptions options = options_of(dir);
  options.on_error = OnSourceError::kSkip;
  Packer packer(options);
  std::filesystem::resize_file(dir / "src/cat/001.npy", SampleReader::kPieceBytes + 1);
  const PackReport report = packer.run();
  EXPECT_EQ(report.sample_count, 7U);
  ASSERT_EQ(report.left_out.size(), 1U);
  EXPECT_EQ(report.left_out[0].key, "cat/001.jpg");
  const auto set = formats::open_shards({options.folder});
  EXPECT_EQ(set->entry_key(1), "cat/002");
  EXPECT_EQ(field_of(options.folder, 1, "jpg"), "cat 2");
}

TEST(Packer, HoldsSamplesOfMoreMembersThanAreReadAtOnce) {
  const TempDir dir;
  make_folder(dir, 2);
  const std::string content(std::size_t{3} << 20, 'c');
  for (int i = 0; i < 12; ++i) dir.write(fmt::format("src/dog/001.f{:02}", i), content);
  for (int i = 0; i < 600; ++i) dir.write(fmt::format("src/dog/001.g{:03}", i), std::to_string(i));
  const PackOptions options = options_of(dir);
  Packer(options).run();
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(field_of(options.folder, 3, fmt::format("f{:02}", i)), content) << i;
  }
  EXPECT_EQ(field_of(options.folder, 3, "g599"), "599");
}

TEST(Packer, GoesOnAfterItsOwnerStoppedIt) {
  const TempDir dir;
  make_folder(dir, 40);
  PackOptions options = options_of(dir);
  options.shard_count = 80;
  options.thread_count = 1;
  std::uint64_t asked = 0;
  options.progress = [&](const PackProgress&) {
    if (++asked == 1) throw std::runtime_error("enough");
  };
  bool was_stopped = false;
  try {
    Packer(options).run();
  } catch (const std::runtime_error& error) {
    was_stopped = std::string(error.what()) == "enough";
  }
  const PackReport report = Packer(options).run();
  // A fast run may have packed all before it is asked for its progress.
  if (!was_stopped) {
    EXPECT_EQ(report.finished_count, 80U);
  }
  EXPECT_EQ(report.sample_count, 80U);
  for (const auto& entry : std::filesystem::directory_iterator(options.folder)) {
    EXPECT_FALSE(entry.path().filename().native().starts_with('.')) << entry.path();
  }
}

TEST(Packer, RefusesOtherTimesWhileItIsNotFinished) {
  const TempDir dir;
  make_folder(dir, 4);
  PackOptions options = options_of(dir);
  options.shard_count = 2;
  options.part = {1, 2};
  Packer(options).run();
  dir.write("src/cat/000.jpg", "cat 0");
  std::filesystem::last_write_time(
      dir / "src/cat/000.jpg",
      std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_THAT(refusal_of(options), HasSubstr("files were written anew"));
  options.part = {2, 2};  // Another machine's copy may have other times.
  Packer(options).run();
  EXPECT_EQ(finish_parts(options).sample_count, 8U);
}

TEST(Packer, RefusesAFieldThatWouldComeTwice) {
  const TempDir dir;
  make_folder(dir, 2);
  dir.write("src/cat/000.cls", "7");
  EXPECT_THAT(refusal_of(options_of(dir)), HasSubstr("field cls"));
}

TEST(Packer, RefusesNamesThatReadersPassOver) {
  const TempDir dir;
  dir.write("src/__a__/000.jpg", "x");
  EXPECT_THAT(refusal_of(options_of(dir)), HasSubstr("rename the folder"));
}

TEST(Packer, PacksClassesWithoutPicturesAlong) {
  const TempDir dir;
  make_folder(dir, 2);
  std::filesystem::create_directory(dir / "src/bird");
  const PackOptions options = options_of(dir);
  Packer(options).run();
  EXPECT_EQ(testing::read_file(dir / "out/classes.txt"), "bird\ncat\ndog\n");
  EXPECT_EQ(field_of(options.folder, 0, "cls"), "1");
  PackOptions again = options;
  again.sources = {options.folder};
  again.folder = dir / "again";
  Packer(again).run();
  EXPECT_EQ(testing::read_file(dir / "again/classes.txt"), "bird\ncat\ndog\n");
}

}  // namespace
}  // namespace feedrace::pack
