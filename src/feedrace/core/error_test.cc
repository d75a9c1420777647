// SPDX-License-Identifier: Apache-2.0
#include "feedrace/error.h"

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace feedrace {
namespace {

TEST(ErrorCode, EveryCodeHasANameOfItsOwn) {
  EXPECT_STREQ(to_string(ErrorCode::kInvalidArgument), "invalid_argument");
  EXPECT_STREQ(to_string(ErrorCode::kNotFound), "not_found");
  EXPECT_STREQ(to_string(ErrorCode::kIo), "io");
  EXPECT_STREQ(to_string(ErrorCode::kCorruptData), "corrupt_data");
  EXPECT_STREQ(to_string(ErrorCode::kUnsupported), "unsupported");
  EXPECT_STREQ(to_string(ErrorCode::kCancelled), "cancelled");
}

TEST(Raise, ThrowsTheFailuresCodeAndMessage) {
  try {
    raise({ErrorCode::kCorruptData, "a.tar: is cut; copy it again"});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_STREQ(error.what(), "a.tar: is cut; copy it again");
  }
}

TEST(Result, HoldsAValue) {
  Result<std::string> result(std::string("value"));
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, "value");
  EXPECT_EQ(result->size(), 5U);
  EXPECT_EQ(*std::move(result), "value");
}

TEST(Result, HoldsAFailure) {
  const Result<std::string> result(Failure{ErrorCode::kIo, "why"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kIo);
  EXPECT_EQ(result.error().message, "why");
}

TEST(Result, HoldsWhatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> out = *std::move(result);
  EXPECT_EQ(*out, 7);
}

TEST(ResultOfNothing, IsTrueUnlessItHoldsAFailure) {
  const Result<void> good;
  EXPECT_TRUE(good);
  const Result<void> bad(Failure{ErrorCode::kUnsupported, "no"});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace feedrace
