// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/io_files.h"

#include <string>

#include <gtest/gtest.h>

#include "feedrace/error.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::diagnose {
namespace {

constexpr std::size_t kBlock = 4096;
constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

TEST(IoFiles, AreCutToWholeBlocks) {
  const testing::TempDir folder;
  const std::string path = folder.write("a.bin", std::string(3 * kBlock + 100, 'a'));
  const auto files = collect_files({path}, kBlock, kNoLimit);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].path, path);
  EXPECT_EQ(files[0].block_count, 3U);
}

TEST(IoFiles, OfAFolderAreItsLargeOnesLargestFirst) {
  const testing::TempDir folder;
  folder.write("small", std::string(kBlock - 1, 'a'));
  folder.write("one", std::string(kBlock, 'a'));
  folder.write("two", std::string(2 * kBlock, 'a'));
  const auto files = collect_files({folder.path()}, kBlock, kNoLimit);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_TRUE(files[0].path.ends_with("/two"));
  EXPECT_TRUE(files[1].path.ends_with("/one"));
}

TEST(IoFiles, EndWhereTheLimitIsReached) {
  const testing::TempDir folder;
  const std::string a = folder.write("a", std::string(3 * kBlock, 'a'));
  const std::string b = folder.write("b", std::string(3 * kBlock, 'a'));
  const auto files = collect_files({a, b}, kBlock, 5 * kBlock);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[1].block_count, 2U);
  EXPECT_EQ(collect_files({a, b}, kBlock, 3 * kBlock).size(), 1U);
  EXPECT_EQ(collect_files({a, b}, kBlock, 1)[0].block_count, 1U);  // Never nothing.
}

TEST(IoFiles, ThatCannotBeReadAreNamed) {
  const testing::TempDir folder;
  const std::string small = folder.write("small", "abc");
  const auto code_of = [&](const std::string& path) {
    try {
      collect_files({path}, kBlock, kNoLimit);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      return error.code();
    }
    ADD_FAILURE() << path << " was taken";
    return ErrorCode::kIo;
  };
  EXPECT_EQ(code_of(small), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(folder.path()), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of("/dev/null"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(small + ".gone"), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace feedrace::diagnose
