// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/posix_file.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace feedrace::formats {
namespace {

TEST(SystemFailure, SaysWhatToDo) {
  EXPECT_EQ(system_failure("/a\nb", "open", EACCES).message,
            "/a\\x0ab: open: Permission denied; let this user read it and enter every folder above "
            "it");
  EXPECT_EQ(system_failure("/a", "stat", ENOENT).message,
            "/a: stat: No such file or directory; check the path");
  EXPECT_EQ(system_failure("/a", "open", EMFILE).message,
            "/a: open: Too many open files; raise the limit of open files (ulimit -n, or "
            "fs.file-max for all programs)");
  EXPECT_EQ(system_failure("/a", "read", EIO).message,
            "/a: read: Input/output error; look at the device (dmesg)");
  EXPECT_EQ(system_failure("/a", "write", ENOSPC).message,
            "/a: write: No space left on device; free space, or write elsewhere");
  EXPECT_EQ(system_failure("/a", "unlink", EACCES).message,
            "/a: unlink: Permission denied; get the right to write there, or write elsewhere");
}

TEST(SystemFailure, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(system_failure("/a", "open", ENOENT).code, ErrorCode::kNotFound);
  EXPECT_EQ(system_failure("/a", "open", ENOTDIR).code, ErrorCode::kNotFound);
  EXPECT_EQ(system_failure("/a", "open", EACCES).code, ErrorCode::kIo);
}

}  // namespace
}  // namespace feedrace::formats
