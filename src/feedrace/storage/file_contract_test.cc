// SPDX-License-Identifier: Apache-2.0
// What every back end that reads files promises: whole files, sizes that change, what can't be
// opened and why.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/storage/backend_contract.h"

namespace feedrace::storage {
namespace {

using ::testing::HasSubstr;

std::vector<Variant> file_variants() {
  std::vector<Variant> variants;
  for (const Variant& variant : kVariants) {
    if (variant.name != "Null") variants.push_back(variant);
  }
  return variants;
}

class FileContract : public BackendContract {};

INSTANTIATE_TEST_SUITE_P(All, FileContract, ::testing::ValuesIn(file_variants()),
                         [](const auto& variant) { return variant.param.name; });

TEST_P(FileContract, ReadsWholeFilesOfAnySize) {
  std::vector<std::string> paths;
  std::vector<ReadRequest> requests;
  std::vector<std::size_t> sizes = {0, 1, 511, 512, 513, 4095, 4096, 4097, 65'536, 65'537};
  for (std::size_t i = 0; i < 200; ++i) sizes.push_back(i * 37);
  for (const std::size_t size : sizes) {
    paths.push_back(folder_.write("file" + std::to_string(paths.size()), known_content(size)));
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // One byte too many at least, so that the end is seen.
    requests.push_back({nullptr, paths[i].c_str(), 0, memory(at, sizes[i] + 1 + i % 5000), i});
    at += requests[i].destination.size();
  }
  for (const auto& [index, completion] : read_all(*backend_, requests)) {
    ASSERT_TRUE(completion.bytes_read) << completion.bytes_read.error().message;
    EXPECT_EQ(*completion.bytes_read, sizes[index]);
    EXPECT_TRUE(is_known(head(requests[index], completion), 0)) << sizes[index];
  }
}

TEST_P(FileContract, ReadsFilesLargerThanAnyStepInOneGo) {
  // Blocking reads go in steps of 8 MiB, and look in between whether they were cancelled.
  constexpr std::size_t kBytes = (std::size_t{20} << 20) + 777;
  constexpr std::size_t kRoom = std::size_t{24} << 20;
  make(4, kRoom);
  const std::string path = folder_.write("large", known_content(kBytes));
  const auto whole = read_one(*backend_, {nullptr, path.c_str(), 0, memory(0, kRoom)});
  ASSERT_TRUE(whole.bytes_read) << whole.bytes_read.error().message;
  EXPECT_EQ(*whole.bytes_read, kBytes);
  EXPECT_TRUE(is_known(memory(0, kBytes), 0));
  const auto file = open(path);
  std::memset(memory_.data(), 0, kRoom);
  const auto range = read_one(*backend_, {file.get(), nullptr, 4096, memory(0, kRoom)});
  ASSERT_TRUE(range.bytes_read) << range.bytes_read.error().message;
  EXPECT_EQ(*range.bytes_read, kBytes - 4096);
  EXPECT_TRUE(is_known(memory(0, kBytes - 4096), 4096));
}

TEST_P(FileContract, ContinuesShortReads) {
  // Files of /proc give a page or so at a time, whatever is asked for.
  const std::string path = "/proc/kallsyms";
  if (access(path.c_str(), R_OK) != 0) GTEST_SKIP() << path << " can't be read here";
  const std::string whole = testing::read_file(path).substr(0, 200'000);
  const auto is_same = [&](const Completion& done, std::size_t from) {
    if (!done.bytes_read || *done.bytes_read != memory(0, whole.size() - from).size()) return false;
    return std::memcmp(memory_.data(), whole.data() + from, whole.size() - from) == 0;
  };
  EXPECT_TRUE(is_same(read_one(*backend_, {nullptr, path.c_str(), 0, memory(0, whole.size())}), 0));
  const auto file = open(path);
  EXPECT_TRUE(is_same(
      read_one(*backend_, {file.get(), nullptr, 1234, memory(0, whole.size() - 1234)}), 1234));
}

TEST_P(FileContract, NamesAFileThatIsMissing) {
  const std::string missing = folder_ / "no\nsuch.jpg";
  const auto opened = backend_->open(missing);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kNotFound);
  const auto done = read_one(*backend_, {nullptr, missing.c_str(), 0, memory(0, 4096)});
  ASSERT_FALSE(done.bytes_read);
  EXPECT_EQ(done.bytes_read.error().code, ErrorCode::kNotFound);
  for (const std::string& message : {opened.error().message, done.bytes_read.error().message}) {
    EXPECT_THAT(message, HasSubstr("no\\x0asuch.jpg: can't be opened ("));
    EXPECT_THAT(message, HasSubstr("openat: No such file or directory); check the path"));
  }
}

TEST_P(FileContract, RefusesAFolder) {
  const std::string folder = folder_.path().string();
  const auto opened = backend_->open(folder);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kIo);
  EXPECT_THAT(opened.error().message, HasSubstr("Is a directory); give a file, not a folder"));
  const auto done = read_one(*backend_, {nullptr, folder.c_str(), 0, memory(0, 4096)});
  ASSERT_FALSE(done.bytes_read);
  EXPECT_EQ(done.bytes_read.error().code, ErrorCode::kIo);
  EXPECT_THAT(done.bytes_read.error().message, HasSubstr(folder + ": "));
  EXPECT_THAT(done.bytes_read.error().message, HasSubstr("give a file, not a folder"));
}

TEST_P(FileContract, RefusesNamesThatAreNoFiles) {
  const auto code_of = [&](std::string_view uri) {
    const auto opened = backend_->open(uri);
    return opened ? "opened" : to_string(opened.error().code);
  };
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_STREQ(code_of(fifo), "io");  // And does not wait for a writer.
  EXPECT_STREQ(code_of("s3://bucket/key"), "unsupported");
  EXPECT_STREQ(code_of(std::string_view("a\0b", 3)), "not_found");
  EXPECT_STREQ(code_of(""), "not_found");
}

TEST_P(FileContract, NamesAFileThatMayNotBeRead) {
  ASSERT_EQ(chmod(path_.c_str(), 0), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  backend_.reset();  // So that no thread of it is lost in the child.
  const auto messages = [&]() -> std::string {
    if (getuid() == 0) become_nobody();
    const auto backend = GetParam().make(4);
    std::vector<std::byte> destination(4096);
    const auto opened = backend->open(path_);
    const auto done = read_one(*backend, {nullptr, path_.c_str(), 0, destination});
    if (opened || done.bytes_read) return "it was read";
    return opened.error().message + "\n" + to_string(done.bytes_read.error().code) + " " +
           done.bytes_read.error().message;
  };
  const std::string remedy =
      "openat: Permission denied); let this user read the file and enter every folder above it";
  const std::string text = in_child(messages);
  EXPECT_THAT(text,
              ::testing::StartsWith(path_ + ": can't be opened (" + remedy + "\nio " + path_));
  EXPECT_THAT(text, ::testing::EndsWith(remedy));
}

TEST_P(FileContract, RefusesRequestsThatMeanNothing) {
  const auto nothing = read_one(*backend_, {nullptr, nullptr, 0, memory(0, 16)});
  ASSERT_FALSE(nothing.bytes_read);
  EXPECT_EQ(nothing.bytes_read.error().code, ErrorCode::kInvalidArgument);
  auto foreign = testing::NullBackend().open("foreign");
  const auto other = read_one(*backend_, {foreign->get(), nullptr, 0, memory(0, 16)});
  ASSERT_FALSE(other.bytes_read);
  EXPECT_EQ(other.bytes_read.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.bytes_read.error().message, HasSubstr("foreign: "));
}

TEST_P(FileContract, ReadsAFileThatHasShrunkToItsNewEnd) {
  const auto file = open(path_);
  std::filesystem::resize_file(path_, 100'001);
  const ReadRequest request{file.get(), nullptr, 0, memory(0, kFileBytes)};
  const auto done = read_one(*backend_, request);
  ASSERT_TRUE(done.bytes_read) << done.bytes_read.error().message;
  EXPECT_EQ(*done.bytes_read, 100'001U);
  EXPECT_TRUE(is_known(head(request, done), 0));
  const auto behind = read_one(*backend_, {file.get(), nullptr, 200'000, memory(0, 4096)});
  ASSERT_TRUE(behind.bytes_read) << behind.bytes_read.error().message;
  EXPECT_EQ(*behind.bytes_read, 0U);
}

TEST_P(FileContract, ReadsAFileWhileItShrinks) {
  const auto file = open(path_);
  std::thread shrinker([&] {
    for (std::size_t size = kFileBytes; size > 50'000; size -= 50'000) {
      std::filesystem::resize_file(path_, size);
    }
  });
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < 60; ++i) {
    requests.push_back({file.get(), nullptr, i * 16'000, memory(i * 65'536, 65'536), i});
  }
  const auto done = read_all(*backend_, requests);
  shrinker.join();
  for (const auto& [index, completion] : done) {
    ASSERT_TRUE(completion.bytes_read) << completion.bytes_read.error().message;
    EXPECT_LE(*completion.bytes_read, 65'536U);
  }
}

}  // namespace
}  // namespace feedrace::storage
