// SPDX-License-Identifier: Apache-2.0
// Whole files by O_DIRECT where links lead elsewhere, or files are replaced.

#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "feedrace/host/file_system.h"
#include "feedrace/storage/backend_contract.h"

namespace feedrace::storage {
namespace {

/// Back ends that read by O_DIRECT, on a disk that has it, with links to memory.
class LinkedFiles : public BackendContract {
 protected:
  void SetUp() override {
    BackendContract::SetUp();
    if (IsSkipped()) return;
    const auto facts = host::probe_file_system(path_);
    ASSERT_TRUE(facts);
    if (facts->direct_alignment_bytes == 0) GTEST_SKIP() << facts->direct_refusal;
  }

  /// Reads a whole file, whose bytes must be the known ones.
  Path read_whole(const std::string& path, std::size_t size) {
    const ReadRequest request{nullptr, path.c_str(), 0, memory(0, 64 << 10), 0};
    const Completion done = read_one(*backend_, request);
    EXPECT_TRUE(done.bytes_read) << done.bytes_read.error().message;
    if (!done.bytes_read) return done.path;
    EXPECT_EQ(*done.bytes_read, size);
    EXPECT_TRUE(is_known(head(request, done), 0)) << path;
    return done.path;
  }
  std::string write(const std::string& name, std::size_t size) {
    return folder_.write(name, known_content(size));
  }

  const testing::TempDir in_memory_{"/dev/shm"};
};

const Variant kDirectVariants[] = {
    {"Direct", make_threads<Access::kDirect>},
    {"UringDirectRegistered", make_uring<WholeFiles::kChain, true, Access::kDirect>, true},
    {"UringDirectOpenFirst", make_uring<WholeFiles::kOpenFirst, true, Access::kDirect>},
};
INSTANTIATE_TEST_SUITE_P(All, LinkedFiles, ::testing::ValuesIn(kDirectVariants),
                         [](const auto& variant) { return variant.param.name; });

TEST_P(LinkedFiles, AreNotReportedAsDirectWhereTheyLieInMemory) {
  const std::string first = write("mixed/first", 10'000);
  const std::string target = in_memory_.write("target", known_content(20'000));
  const std::string link = folder_ / "mixed/link";
  std::filesystem::create_symlink(target, link);
  EXPECT_EQ(read_whole(first, 10'000), Path::kDirect);  // The folder is known from now on.
  EXPECT_NE(read_whole(link, 20'000), Path::kDirect);
  EXPECT_EQ(read_whole(first, 10'000), Path::kDirect);
  EXPECT_EQ(read_whole(write("mixed/late", 5'000), 5'000), Path::kDirect);
  EXPECT_NE(read_whole(link, 20'000), Path::kDirect);
}

TEST_P(LinkedFiles, AreReadFromAFolderOfLinksOnly) {
  std::filesystem::create_directory(folder_ / "links");
  for (const std::size_t size : {1, 4096, 10'000, 50'000}) {
    const std::string name = std::to_string(size);
    const std::string on_disk = folder_ / ("links/disk" + name);
    const std::string in_memory = folder_ / ("links/memory" + name);
    std::filesystem::create_symlink(write("target" + name, size), on_disk);
    std::filesystem::create_symlink(in_memory_.write(name, known_content(size)), in_memory);
    EXPECT_EQ(read_whole(on_disk, size), Path::kDirect);
    EXPECT_NE(read_whole(in_memory, size), Path::kDirect);
  }
}

TEST_P(LinkedFiles, AreReadAsTheyAreNowWhenReplaced) {
  const std::string path = write("folder/file", 10'000);
  EXPECT_EQ(read_whole(path, 10'000), Path::kDirect);
  std::filesystem::rename(write("folder/new", 30'001), path);
  EXPECT_EQ(read_whole(path, 30'001), Path::kDirect);
  std::filesystem::remove(path);
  std::filesystem::create_symlink(in_memory_.write("target", known_content(777)), path);
  EXPECT_NE(read_whole(path, 777), Path::kDirect);
  std::filesystem::remove(path);
  EXPECT_EQ(read_whole(write("folder/file", 4096), 4096), Path::kDirect);
}

TEST_P(LinkedFiles, KeepDirectReadsAfterAFifo) {
  const std::string file = write("folder/file", 10'000);
  EXPECT_EQ(read_whole(file, 10'000), Path::kDirect);
  const std::string fifo = folder_ / "folder/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  if (GetParam().name.starts_with("Uring")) GTEST_SKIP() << "a ring waits for a writer";
  read_one(*backend_, {nullptr, fifo.c_str(), 0, memory(0, 4096), 0});  // However it ends.
  EXPECT_EQ(read_whole(file, 10'000), Path::kDirect);
}

}  // namespace
}  // namespace feedrace::storage
