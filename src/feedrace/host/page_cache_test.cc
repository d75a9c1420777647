// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/page_cache.h"

#include <fcntl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "feedrace/host/file_descriptor.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::host {
namespace {

constexpr std::uint64_t kPages = 64;

class PageCache : public ::testing::Test {
 protected:
  void SetUp() override {
    page_bytes_ = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::string path = folder_.write("a", std::string(kPages * page_bytes_, 'x'));
    fd_ = FileDescriptor(open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fd_);
    if (const auto now = residency(fd_.get(), 0, 0); !now) GTEST_SKIP() << now.error().message;
  }

  std::uint64_t cached(std::uint64_t offset_bytes, std::uint64_t size_bytes) const {
    const auto now = residency(fd_.get(), offset_bytes, size_bytes);
    EXPECT_TRUE(now);
    return now ? now->cached_bytes : 0;
  }

  bool is_in_memory() const {
    struct statfs volume{};
    return fstatfs(fd_.get(), &volume) == 0 && volume.f_type == 0x01021994;
  }

  testing::TempDir folder_;
  FileDescriptor fd_;
  std::uint64_t page_bytes_ = 0;
};

TEST_F(PageCache, CountsWhatWasWritten) {
  EXPECT_EQ(cached(0, 0), kPages * page_bytes_);
  EXPECT_EQ(cached(page_bytes_, 3 * page_bytes_), 3 * page_bytes_);
  EXPECT_EQ(cached(kPages * page_bytes_, page_bytes_), 0u);
}

TEST_F(PageCache, LetsGoOfCleanPagesOfAStretch) {
  if (is_in_memory()) GTEST_SKIP() << "files in memory can't be let go of";
  ASSERT_EQ(fsync(fd_.get()), 0);
  ASSERT_EQ(residency(fd_.get(), 0, 0)->dirty_bytes, 0u);
  ASSERT_TRUE(drop_pages(fd_.get(), 0, 0));
  if (cached(0, 0) > 0) GTEST_SKIP() << "this file system keeps its pages";
  std::string page(page_bytes_, ' ');
  ASSERT_EQ(posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_RANDOM), 0);
  ASSERT_EQ(pread(fd_.get(), page.data(), page.size(), 0), static_cast<ssize_t>(page.size()));
  EXPECT_EQ(cached(0, page_bytes_), page_bytes_);
  ASSERT_TRUE(drop_pages(fd_.get(), 0, page_bytes_));
  EXPECT_EQ(cached(0, page_bytes_), 0u);
}

TEST(PageCacheFailures, HaveAReason) {
  const auto unknown = residency(-1, 0, 0);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(unknown.error().message, "");
  const auto kept = drop_pages(-1, 0, 0);
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace feedrace::host
