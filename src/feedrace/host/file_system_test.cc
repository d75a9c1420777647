// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/file_system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/host/file_descriptor.h"
#include "feedrace/host/test_sys_tree.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::host {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

FileSystem probe(const std::string& path, const std::string& root = "/") {
  const auto found = probe_file_system(path, root);
  if (!found) {
    ADD_FAILURE() << found.error().message;
    return {};
  }
  return *found;
}

TEST(ProbeFileSystem, SaysEitherHowToReadDirectlyOrWhyNot) {
  const testing::TempDir folder;
  const auto found = probe(folder.write("a", std::string(10'000, 'x')));
  struct stat info{};
  ASSERT_EQ(stat((folder / "a").c_str(), &info), 0);
  EXPECT_THAT(found.type, Not(IsEmpty()));
  EXPECT_EQ(found.device, info.st_dev);
  EXPECT_THAT(found.mount_point, HasSubstr("/"));
  EXPECT_EQ(found.direct_alignment_bytes == 0, !found.direct_refusal.empty());
  EXPECT_THAT(found.direct_refusal, Not(HasSubstr("\n")));
}

TEST(ProbeFileSystem, GivesAnAlignmentThatReadsWith) {
  const testing::TempDir folder;
  const std::string path = folder.write("a", std::string(200'000, 'x'));
  const auto found = probe(path);
  const std::size_t step = found.direct_alignment_bytes;
  if (step == 0) GTEST_SKIP() << found.direct_refusal;
  ASSERT_GE(step, 512u);
  ASSERT_EQ(step & (step - 1), 0u);
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  ASSERT_TRUE(fd);
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(2 * step, 4 * step),
                                                      [](void* block) { std::free(block); });
  auto* odd = static_cast<char*>(memory.get()) + step;  // No better aligned than was promised.
  EXPECT_EQ(pread(fd.get(), odd, step, static_cast<off_t>(3 * step)), static_cast<ssize_t>(step));
  EXPECT_EQ(odd[step - 1], 'x');
}

TEST(ProbeFileSystem, AnswersForAnEmptyFileAsForAFullOne) {
  const testing::TempDir folder;
  const auto full = probe(folder.write("full", std::string(5'000, 'x')));
  const auto empty = probe(folder.write("empty", ""));
  EXPECT_EQ(empty.type, full.type);
  EXPECT_EQ(empty.direct_alignment_bytes, full.direct_alignment_bytes);
  EXPECT_EQ(empty.has_uncached_reads, full.has_uncached_reads);
}

TEST(ProbeFileSystem, RefusesDirectReadsOfMemory) {
  const FileDescriptor file(memfd_create("feedrace-test", MFD_CLOEXEC));
  ASSERT_TRUE(file);
  ASSERT_EQ(ftruncate(file.get(), 8192), 0);
  const auto found = probe(fmt::format("/proc/self/fd/{}", file.get()));
  EXPECT_EQ(found.type, "tmpfs");
  EXPECT_TRUE(found.is_in_memory);
  EXPECT_FALSE(found.is_on_network);
  EXPECT_FALSE(found.has_exact_ends);
  EXPECT_EQ(found.direct_alignment_bytes, 0u);
  EXPECT_EQ(found.direct_refusal, "tmpfs keeps files in memory, so O_DIRECT saves nothing");
}

TEST(ProbeFileSystem, GivesTheReasonOfAFileSystemWithoutDirectReads) {
  const auto found = probe("/proc/self/status");
  EXPECT_EQ(found.type, "proc");
  EXPECT_EQ(found.direct_alignment_bytes, 0u);
  EXPECT_THAT(found.direct_refusal, HasSubstr("proc: O_DIRECT open fails (Invalid argument)"));
}

TEST(ProbeFileSystem, FindsTheMountOfTheFileBehindLinks) {
  SysTree tree;
  const testing::TempDir data;
  const std::string real = std::filesystem::canonical(data.path()).string();
  tree.file("proc/self/mountinfo", "1 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n1 1 8:2 / " +
                                       real +
                                       "/disk rw,noatime - xfs /dev/mapper/fast rw,logbufs=8");
  data.write("disk/a", "content");
  std::filesystem::create_symlink(data / "disk/a", data / "link");
  const auto found = probe(data / "link", tree.root());
  EXPECT_EQ(found.mount_point, real + "/disk");
  EXPECT_EQ(found.mount_source, "/dev/mapper/fast");
  EXPECT_EQ(found.mount_options, "rw,noatime,logbufs=8");
}

TEST(ProbeFileSystem, LeavesTheMountUnknownWithoutATable) {
  const SysTree tree;
  const testing::TempDir data;
  const auto found = probe(data.write("a", "content"), tree.root());
  EXPECT_EQ(found.mount_point, "");
  EXPECT_EQ(found.mount_source, "");
  EXPECT_THAT(found.type, Not(IsEmpty()));
}

TEST(ProbeFileSystem, SaysWhatIsWrongWithThePath) {
  const testing::TempDir folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const auto code_of = [](const std::string& path) {
    const auto found = probe_file_system(path);
    EXPECT_FALSE(found);
    return found ? ErrorCode::kCancelled : found.error().code;
  };
  EXPECT_EQ(code_of(folder / "missing"), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(folder.write("a", "x") + "/b"), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(folder.path().string()), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(fifo), ErrorCode::kIo);
  EXPECT_EQ(code_of("/dev/null"), ErrorCode::kIo);
}

TEST(ProbeFileSystem, NamesAFileThatMayNotBeRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read anything";
  const testing::TempDir folder;
  const std::string path = folder.write("secret", "x");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const auto found = probe_file_system(path);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kIo);
  EXPECT_THAT(found.error().message, HasSubstr("secret"));
}

}  // namespace
}  // namespace feedrace::host
