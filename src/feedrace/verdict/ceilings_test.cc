// SPDX-License-Identifier: Apache-2.0
#include "feedrace/verdict/ceilings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"

namespace feedrace::verdict {
namespace {

TEST(Ceilings, AreReadFromWhatTheBenchmarkWrites) {
  const auto found = parse_ceilings(
      R"({"path": "x", "ceilings": {"storage": {"images_per_second": 9400.5, "spread": [1, 2]},
          "decode": {"images_per_second": 500}, "packed": {"images_per_second": null}, "copy": 7}})");
  EXPECT_EQ(found.storage, 9400.5);
  EXPECT_EQ(found.decode, 500);
  EXPECT_FALSE(found.packed);
  EXPECT_FALSE(found.decode_indexed);
}

TEST(Ceilings, OtherTextIsRefused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"ceilings": 3})",
                           R"({"ceilings": {"storage": {"images_per_second": -1}}})",
                           R"({"ceilings": {"storage": {"images_per_second": "9"}}})",
                           R"({"ceilings": {"storage": {"images_per_second": 1e999}}})"}) {
    EXPECT_THROW(parse_ceilings(text), Error) << text;
  }
}

}  // namespace
}  // namespace feedrace::verdict
