// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/kernel_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace {
namespace {

using ::testing::HasSubstr;

TEST(KernelFile, IsReadToItsEnd) {
  EXPECT_THAT(kernel_file("/proc/self/status"), HasSubstr("\nPid:"));
  EXPECT_EQ(kernel_file("/dev/null"), "");
}

TEST(KernelFile, WhatOpensAndCanNotBeReadIsEmpty) {
  EXPECT_EQ(kernel_file("/proc/self/mem"), "");  // Nothing lies at address 0.
  EXPECT_EQ(kernel_file("/proc/self"), "");
  EXPECT_EQ(kernel_file("/proc/self/none"), "");
  EXPECT_EQ(kernel_file(""), "");
}

TEST(KernelFile, APipeIsNotWaitedFor) {
  const auto path =
      std::filesystem::temp_directory_path() / ("kernel_file_test." + std::to_string(getpid()));
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(kernel_file(path), "");
  std::filesystem::remove(path);
}

TEST(KernelFile, AFileWithoutEndIsCut) {
  EXPECT_EQ(kernel_file("/dev/zero").size(), std::size_t{16} << 20);
}

}  // namespace
}  // namespace feedrace
