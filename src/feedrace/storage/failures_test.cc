// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/failures.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace feedrace::storage {
namespace {

TEST(OpenFailure, NamesTheFileTheCallAndTheRemedy) {
  const Failure failure = open_failure("a/b\t.jpg", "openat", EMFILE);
  EXPECT_EQ(failure.code, ErrorCode::kUnsupported);  // The process's fault, not the file's.
  EXPECT_EQ(failure.message,
            "a/b\\x09.jpg: can't be opened (openat: Too many open files); raise the limit of open "
            "files (ulimit -n)");
}

TEST(OpenFailure, IsNotFoundWhereThePathIsAtFault) {
  for (const int error : {ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG}) {
    EXPECT_EQ(open_failure("x", "openat", error).code, ErrorCode::kNotFound) << error;
  }
  for (const int error : {EACCES, EPERM, EISDIR, EIO, ENOMEM}) {
    EXPECT_EQ(open_failure("x", "openat", error).code, ErrorCode::kIo) << error;
  }
}

TEST(ReadFailure, NamesTheFileTheOffsetAndTheSize) {
  const Failure failure = read_failure("train-0042.tar", 18'874'368, 131'072, "preadv2", EIO);
  EXPECT_EQ(failure.code, ErrorCode::kIo);
  EXPECT_EQ(failure.message,
            "train-0042.tar: reading 131072 bytes at offset 18874368 failed (preadv2: Input/output "
            "error); look at the device and the kernel log (dmesg), then try again");
}

TEST(ReadFailure, SaysThatACancelledReadIsNothingWrong) {
  const Failure failure = read_failure("x", 0, 1, "preadv2", ECANCELED);
  EXPECT_EQ(failure.code, ErrorCode::kCancelled);
  EXPECT_EQ(
      failure.message,
      "x: reading 1 bytes at offset 0 failed (preadv2: Operation canceled); nothing is wrong, "
      "reading was stopped");
}

TEST(NamedFailure, MakesTheNamePrintable) {
  EXPECT_EQ(named_failure(ErrorCode::kIo, "a\nb", "is odd; look").message, "a\\x0ab: is odd; look");
}

}  // namespace
}  // namespace feedrace::storage
