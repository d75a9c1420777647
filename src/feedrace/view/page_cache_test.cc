// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/page_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/host/file_descriptor.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::view {
namespace {

class CachedSamples : public ::testing::Test {
 protected:
  void SetUp() override {
    page_bytes_ = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    cached_ = dir_.write("cached", std::string(8 * page_bytes_, 'x'));
    // A hole has no page until it is read.
    hole_ = dir_.write("hole", "");
    std::filesystem::resize_file(hole_, 8 * page_bytes_);
    if (const auto now = cached_share(std::vector<watch::SamplePlace>{{cached_, 0, 0}});
        !now || now->share < 1) {
      GTEST_SKIP() << "this file system does not tell what is cached";
    }
  }

  double share(const std::vector<watch::SamplePlace>& places) const {
    const auto found = cached_share(places);
    EXPECT_TRUE(found) << found.error().message;
    return found ? found->share : -1;
  }

  testing::TempDir dir_;
  std::string cached_;
  std::string hole_;
  std::uint64_t page_bytes_ = 0;
};

TEST_F(CachedSamples, CountByTheirPages) {
  EXPECT_DOUBLE_EQ(share({{cached_, 0, 0}, {hole_, 0, 0}}), 0.5);
  EXPECT_DOUBLE_EQ(share({{cached_, 100, 2 * page_bytes_}, {hole_, 0, page_bytes_}}), 0.75);
  EXPECT_DOUBLE_EQ(share({{hole_, 5, 10}}), 0);
}

TEST_F(CachedSamples, WhoseFilesAreGoneAreLeftOut) {
  const std::vector<watch::SamplePlace> places = {
      {dir_ / "absent", 0, 0}, {cached_, 0, 0}, {cached_, 1 << 30, 5}, {dir_.path(), 0, 0}};
  const auto found = cached_share(places);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->samples, 1U);
  EXPECT_DOUBLE_EQ(found->share, 1);
}

TEST(CachedShare, OfNothingIsNotKnown) {
  const testing::TempDir dir;
  const std::string pipe = dir / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(cached_share({}).error().code, ErrorCode::kNotFound);
  const std::vector<watch::SamplePlace> odd = {{pipe, 0, 0}, {dir.write("empty", ""), 0, 0}};
  EXPECT_EQ(cached_share(odd).error().code, ErrorCode::kNotFound) << "and does not wait";
}

}  // namespace
}  // namespace feedrace::view
