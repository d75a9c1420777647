// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/quarantine.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/formats/joined_dataset.h"
#include "feedrace/formats/test_dataset.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::shared_ptr<formats::testing::ListedDataset> numbered_set(int count) {
  std::vector<formats::testing::ListedDataset::Sample> samples;
  for (int i = 0; i < count; ++i) samples.push_back({fmt::format("{:04}.jpg", i), 0, true});
  return formats::testing::listed_dataset(std::move(samples));
}

void add_all(Quarantine& quarantine, const formats::Dataset& dataset,
             std::string_view code = "corrupt_data") {
  for (std::uint64_t sample = 0; sample < dataset.size(); ++sample) {
    EXPECT_TRUE(quarantine.add(dataset, sample, 0, code, "no picture"));
  }
}

std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream text(testing::read_file(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// How often each key is listed; every line must be JSON.
std::map<std::string, int> listed_keys(const std::string& path) {
  std::map<std::string, int> keys;
  for (const std::string& line : lines_of(path)) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(json.is_object()) << line;
    if (json.is_object()) ++keys[json.value("key", "?")];
  }
  return keys;
}

void expect_each_once(const std::string& path, std::size_t count) {
  const auto keys = listed_keys(path);
  EXPECT_THAT(keys, SizeIs(count));
  for (const auto& [key, times] : keys) EXPECT_EQ(times, 1) << key;
}

TEST(Quarantine, RanksThatMeetTheSameSamplesListEachOnce) {
  const testing::TempDir dir;
  const std::string path = dir / "bad.jsonl";
  const auto dataset = numbered_set(200);
  Quarantine first(path);
  Quarantine second(path);
  std::vector<std::thread> threads;
  for (Quarantine* rank : {&first, &second, &first, &second}) {
    threads.emplace_back([rank, &dataset] { add_all(*rank, *dataset); });
  }
  for (std::thread& thread : threads) thread.join();
  expect_each_once(path, 200);
}

TEST(Quarantine, ProcessesThatMeetTheSameSamplesListEachOnce) {
  const testing::TempDir dir;
  const std::string path = dir / "bad.jsonl";
  const auto dataset = numbered_set(200);
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      Quarantine quarantine(path);
      add_all(quarantine, *dataset);
      _exit(0);
    }
    ASSERT_GT(child, 0);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  expect_each_once(path, 200);
}

TEST(Quarantine, ARunThatGoesOnDoesNotRepeatWhatIsListed) {
  const testing::TempDir dir;
  const std::string path = dir / "bad.jsonl";
  const auto dataset = numbered_set(10);
  for (int run = 0; run < 3; ++run) {
    Quarantine quarantine(path);
    add_all(quarantine, *dataset);
  }
  expect_each_once(path, 10);
}

TEST(Quarantine, ASampleIsListedOnceAsBadAndOnceAsFlagged) {
  const testing::TempDir dir;
  const std::string path = dir / "bad.jsonl";
  const auto dataset = numbered_set(1);
  for (int run = 0; run < 2; ++run) {
    Quarantine quarantine(path);
    add_all(quarantine, *dataset, "flagged");
    add_all(quarantine, *dataset, "corrupt_data");
    add_all(quarantine, *dataset, "io");
  }
  EXPECT_THAT(lines_of(path), SizeIs(2));
}

TEST(Quarantine, SetsThatShareAKeyAreToldApart) {
  const testing::TempDir dir;
  const std::string path = dir / "bad.jsonl";
  const formats::JoinedDataset dataset({{"a", numbered_set(2)}, {"b", numbered_set(2)}});
  for (int run = 0; run < 2; ++run) {
    Quarantine quarantine(path);
    add_all(quarantine, dataset);
  }
  const auto lines = lines_of(path);
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_EQ(nlohmann::json::parse(lines[0])["set"], "a");
  EXPECT_EQ(nlohmann::json::parse(lines[3])["set"], "b");
}

TEST(Quarantine, ATornLastLineStaysAloneOnItsLine) {
  const testing::TempDir dir;
  const std::string torn = R"({"code":"io","key":"0000.j)";
  const std::string path = dir.write("bad.jsonl", torn);
  const auto dataset = numbered_set(2);
  Quarantine quarantine(path);
  add_all(quarantine, *dataset);
  const auto lines = lines_of(path);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0], torn);
  EXPECT_EQ(nlohmann::json::parse(lines[1])["key"], "0000.jpg");
  EXPECT_EQ(nlohmann::json::parse(lines[2])["key"], "0001.jpg");
}

TEST(Quarantine, LinesOfOthersAreLeftAndPassedOver) {
  const testing::TempDir dir;
  const std::string garbage =
      std::string("[1,\n\n{}\n\"text\"\n{\"key\": 7}\n\xff\xfe\n{\"code\": [[]], \"key\": {}}\n") +
      R"({"code":"io","key":)" + std::string(500'000, '[') + std::string(500'000, ']') + "}\n" +
      std::string(3 << 20, 'x') + "\n";
  const std::string path = dir.write("bad.jsonl", garbage);
  const auto dataset = numbered_set(3);
  {
    Quarantine quarantine(path);
    add_all(quarantine, *dataset);
  }
  Quarantine quarantine(path);
  add_all(quarantine, *dataset);
  const std::string text = testing::read_file(path);
  ASSERT_TRUE(text.starts_with(garbage));
  EXPECT_EQ(
      std::count(text.begin() + static_cast<std::ptrdiff_t>(garbage.size()), text.end(), '\n'), 3);
}

TEST(Quarantine, AFileThatIsEmptiedOnTheWayIsFilledAnew) {
  const testing::TempDir dir;
  const std::string path = dir / "bad.jsonl";
  const auto dataset = numbered_set(4);
  Quarantine first(path);
  Quarantine second(path);
  add_all(first, *dataset);
  ASSERT_TRUE(second.add(*dataset, 0, 0, "io", "no picture"));
  ASSERT_EQ(truncate(path.c_str(), 0), 0);
  add_all(second, *dataset);
  EXPECT_THAT(listed_keys(path), SizeIs(3));  // The second rank met sample 0 before.
}

TEST(Quarantine, APieceOfALineThatDidNotFitIsCutOffAgain) {
  const testing::TempDir dir;
  const std::string path = dir / "bad.jsonl";
  const auto dataset = numbered_set(2);
  Quarantine quarantine(path);
  ASSERT_TRUE(quarantine.add(*dataset, 0, 0, "io", "no picture"));
  const std::string before = testing::read_file(path);

  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = before.size() + 10;
  const auto old_action = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto listed = quarantine.add(*dataset, 1, 0, "io", "no picture");
  setrlimit(RLIMIT_FSIZE, &old_limit);
  signal(SIGXFSZ, old_action);

  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, ErrorCode::kIo);
  EXPECT_THAT(listed.error().message, HasSubstr("bad.jsonl: the quarantine line was not written"));
  EXPECT_EQ(testing::read_file(path), before);
  EXPECT_TRUE(quarantine.add(*dataset, 1, 0, "io", "no picture"));  // There is room again.
  expect_each_once(path, 2);
}

TEST(Quarantine, AFullDeviceIsAFailure) {
  const auto dataset = numbered_set(1);
  Quarantine quarantine("/dev/full");
  const auto listed = quarantine.add(*dataset, 0, 0, "io", "no picture");
  ASSERT_FALSE(listed);
  EXPECT_THAT(listed.error().message, HasSubstr("No space left"));
}

TEST(Quarantine, APipeGetsTheLinesAsTheyCome) {
  const testing::TempDir dir;
  const std::string path = dir / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  const auto dataset = numbered_set(1);
  Quarantine quarantine(path);
  add_all(quarantine, *dataset);
  add_all(quarantine, *dataset);
  std::string text(4096, '\0');
  const ssize_t got = read(reader, text.data(), text.size());
  close(reader);
  ASSERT_GT(got, 0);
  text.resize(static_cast<std::size_t>(got));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(Quarantine, ARankThatHoldsTheLockForEverDoesNotStopTheOthers) {
  const testing::TempDir dir;
  const std::string path = dir.write("bad.jsonl", "");
  const int stopped = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  ASSERT_EQ(fcntl(stopped, F_OFD_SETLK, &lock), 0);
  const auto dataset = numbered_set(50);
  Quarantine quarantine(path);
  add_all(quarantine, *dataset);
  close(stopped);
  expect_each_once(path, 50);
}

TEST(Quarantine, WithoutANameNothingIsWritten) {
  const auto dataset = numbered_set(1);
  Quarantine quarantine("");
  EXPECT_TRUE(quarantine.add(*dataset, 0, 0, "io", "no picture"));
}

}  // namespace
}  // namespace feedrace::pipeline
