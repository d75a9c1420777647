// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/warm.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/host/file_descriptor.h"
#include "feedrace/host/page_cache.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::host {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kAll = ~std::uint64_t{0};

std::vector<WarmFile> listed(std::vector<std::uint64_t> sizes) {
  std::vector<WarmFile> files;
  for (const std::uint64_t size : sizes) files.push_back({"f", size});
  return files;
}

TEST(Warming, PlansEverythingWithoutALimit) {
  const Warming warming(listed({10, 0, 20}), kAll);
  EXPECT_EQ(warming.total_bytes(), 30u);
  EXPECT_EQ(warming.planned_bytes(), 30u);
  EXPECT_EQ(warming.planned_files(), 3u);
  EXPECT_EQ(warming.left_out_files(), 0u);
}

TEST(Warming, StopsAtTheLimitInTheMiddleOfAFile) {
  const Warming warming(listed({10, 20, 5}), 13);
  EXPECT_EQ(warming.total_bytes(), 35u);
  EXPECT_EQ(warming.planned_bytes(), 13u);
  EXPECT_EQ(warming.planned_files(), 2u);
  EXPECT_EQ(warming.left_out_files(), 1u);
}

TEST(Warming, StopsAtTheLimitBetweenFiles) {
  const Warming warming(listed({10, 20, 0, 5}), 10);
  EXPECT_EQ(warming.planned_bytes(), 10u);
  EXPECT_EQ(warming.planned_files(), 1u);
  EXPECT_EQ(warming.left_out_files(), 3u);
}

TEST(Warming, PlansNothingOfNothing) {
  EXPECT_EQ(Warming({}, kAll).planned_files(), 0u);
  EXPECT_EQ(Warming(listed({10}), 0).planned_bytes(), 0u);
  EXPECT_EQ(Warming({}, kAll).read(2).read_bytes, 0u);
}

/// Files that the page cache has nothing of, as far as the file system lets go.
class WarmFiles {
 public:
  void add(const std::string& name, std::uint64_t size_bytes) {
    const std::string path = folder_.write(name, std::string(size_bytes, 'x'));
    const FileDescriptor fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(fsync(fd.get()), 0);
    EXPECT_TRUE(drop_pages(fd.get(), 0, 0));
    files_.push_back({path, size_bytes});
  }
  const std::vector<WarmFile>& list() const { return files_; }
  std::string path_of(const std::string& name) const { return folder_ / name; }

 private:
  testing::TempDir folder_;
  std::vector<WarmFile> files_;
};

TEST(Warming, BringsFilesOfAllSizesIntoTheCache) {
  WarmFiles files;
  files.add("empty", 0);
  files.add("byte", 1);
  files.add("odd", 300'001);
  files.add("large", 20'000'003);  // Several pieces.
  for (int i = 0; i < 100; ++i) files.add("small" + std::to_string(i), 5'000);
  for (const std::size_t threads : {1, 3}) {
    const Warming warming(files.list(), kAll);
    const WarmOutcome outcome = warming.read(threads);
    EXPECT_EQ(outcome.read_bytes, warming.total_bytes());
    EXPECT_EQ(outcome.failed_files, 0u);
    EXPECT_FALSE(outcome.failure);
    const auto cached = warming.cached_bytes(threads);
    if (!cached) GTEST_SKIP() << cached.error().message;
    // A machine that is short of memory may have let go of some.
    EXPECT_GE(*cached, warming.total_bytes() / 10 * 9);
    EXPECT_LE(*cached, warming.total_bytes());
  }
}

TEST(Warming, ReadsNoFurtherThanTheLimit) {
  WarmFiles files;
  files.add("a", 2'000'000);
  files.add("b", 2'000'000);
  const Warming warming(files.list(), 1'000'000);
  EXPECT_EQ(warming.read(2).read_bytes, 1'000'000u);
  const auto cached = warming.cached_bytes(1);
  if (!cached) GTEST_SKIP() << cached.error().message;
  EXPECT_GE(*cached, 900'000u);
  EXPECT_LE(*cached, 1'000'000u);
}

TEST(Warming, CountsFilesThatCannotBeReadAndReadsTheOthers) {
  WarmFiles files;
  files.add("a", 1'000);
  files.add("short", 9'000'000);
  files.add("c", 2'000);
  std::vector<WarmFile> list = files.list();
  ASSERT_EQ(truncate(list[1].path.c_str(), 100), 0);
  list.push_back({files.path_of("missing"), 30'000'000});
  list.push_back({files.path_of("gone"), 0});  // As when not even its size could be asked.
  const WarmOutcome outcome = Warming(list, kAll).read(1);
  EXPECT_EQ(outcome.read_bytes, 3'000u);
  EXPECT_EQ(outcome.failed_files, 3u);
  ASSERT_TRUE(outcome.failure);
  EXPECT_THAT(outcome.failure->message, HasSubstr("became shorter"));
  EXPECT_EQ(outcome.failure->code, ErrorCode::kIo);
}

TEST(Warming, SaysThatAFileIsMissing) {
  const WarmOutcome outcome = Warming({{"/no/such/file", 10}}, kAll).read(1);
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->code, ErrorCode::kNotFound);
  EXPECT_THAT(outcome.failure->message, HasSubstr("/no/such/file"));
  const auto cached = Warming({{"/no/such/file", 10}}, kAll).cached_bytes(1);
  ASSERT_TRUE(cached);
  EXPECT_EQ(*cached, 0u);
}

}  // namespace
}  // namespace feedrace::host
