// SPDX-License-Identifier: Apache-2.0
// The small parts that packing is put together from.

#include "feedrace/pack/pack_files.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/pack/exclude_list.h"
#include "feedrace/pack/journal.h"
#include "feedrace/pack/ring_memory.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::pack {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

constexpr std::size_t kPage = RingMemory::kAlignmentBytes;

TEST(RingMemory, HandsOutPiecesThatDoNotOverlap) {
  RingMemory ring(4 * kPage);
  const auto a = ring.take(kPage + 1);  // Two pages.
  const auto b = ring.take(kPage);
  ASSERT_EQ(a.size(), kPage + 1);
  ASSERT_EQ(b.size(), kPage);
  EXPECT_EQ(b.data() - a.data(), static_cast<std::ptrdiff_t>(2 * kPage));
  EXPECT_TRUE(ring.take(kPage + 1).empty());
  EXPECT_EQ(ring.take(kPage).size(), kPage);
  EXPECT_TRUE(ring.take(1).empty());
}

TEST(RingMemory, NeverCutsAPieceInTwo) {
  RingMemory ring(4 * kPage);
  const auto a = ring.take(3 * kPage);
  const std::uint64_t end_of_a = ring.end();
  EXPECT_TRUE(ring.take(2 * kPage).empty());
  ring.give_back(end_of_a);
  const auto b = ring.take(4 * kPage);  // Empty, it begins anew.
  EXPECT_EQ(b.data(), a.data());
  EXPECT_EQ(b.size(), 4 * kPage);
}

TEST(RingMemory, TakesAnOldPositionForNothing) {
  RingMemory ring(4 * kPage);
  (void)ring.take(kPage);
  const std::uint64_t old = ring.end();
  ring.give_back(old);
  ring.give_back(old);
  EXPECT_EQ(ring.take(4 * kPage).size(), 4 * kPage);
}

TEST(RingMemory, UndoesWhatDidNotFit) {
  RingMemory ring(4 * kPage);
  (void)ring.take(kPage);
  const std::uint64_t mark = ring.end();
  (void)ring.take(2 * kPage);
  ring.undo(mark);
  EXPECT_EQ(ring.take(3 * kPage).size(), 3 * kPage);
}

JournalHead head() {
  JournalHead head;
  head.source = "0123456789abcdef";
  head.sizes = "1111111111111111";
  head.times = "2222222222222222";
  head.options = R"({"align":true,"shards":3})";
  head.shard_count = 3;
  head.sample_count = 9;
  head.left_out = {{"a\xff", "gone"}};
  return head;
}

JournalShard shard(std::uint64_t number) {
  return {number, {shard_name("t", number), 512, 3, std::string(32, 'a')}, {{"k", "r"}}};
}

std::string journal_text(const TempDir& dir) { return testing::read_file(dir / journal_name({})); }

TEST(Journal, ComesBackAsItWasWritten) {
  const TempDir dir;
  const auto folder = PackFolder::open(dir.path(), /*create=*/false);
  ASSERT_TRUE(folder);
  {
    auto journal = Journal::open(*folder, {}, head(), nullptr);
    ASSERT_TRUE(journal) << journal.error().message;
    for (const std::uint64_t number : {2, 0}) ASSERT_TRUE(journal->add(shard(number)));
  }
  const auto content = JournalContent::parse(journal_text(dir));
  ASSERT_TRUE(content);
  EXPECT_EQ(content->head.difference(head(), /*is_same_run=*/true), "");
  EXPECT_EQ(content->head.left_out, head().left_out);
  ASSERT_EQ(content->shards.size(), 2U);
  EXPECT_EQ(content->shards.at(2).shard, shard(2).shard);
  EXPECT_EQ(content->shards.at(0).left_out, shard(0).left_out);
}

TEST(Journal, GoesOnBehindALineThatWasCut) {
  const TempDir dir;
  const auto folder = PackFolder::open(dir.path(), /*create=*/false);
  ASSERT_TRUE(folder);
  ASSERT_TRUE(Journal::open(*folder, {}, head(), nullptr)->add(shard(0)));
  const std::string whole = journal_text(dir);
  dir.write(journal_name({}), whole + "{\"number\": 1, \"na");
  const auto content = JournalContent::parse(journal_text(dir));
  ASSERT_TRUE(content);
  EXPECT_EQ(content->size_bytes, whole.size());
  ASSERT_TRUE(Journal::open(*folder, {}, head(), &*content)->add(shard(1)));
  const auto again = JournalContent::parse(journal_text(dir));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->shards.size(), 2U);
}

TEST(Journal, OneThatIsNoneIsRefused) {
  for (const std::string text : {"", "{}\n", "no json\n", "[]\n", "{\"format\":\"x\"}\n"}) {
    EXPECT_FALSE(JournalContent::parse(text)) << text;
  }
}

TEST(Journal, SaysWhatDiffers) {
  JournalHead other = head();
  other.options = R"({"align":false,"shards":3})";
  EXPECT_EQ(head().difference(other, true), "align is true, and was false");
  other = head();
  other.times = "3333333333333333";
  EXPECT_EQ(head().difference(other, false), "");
  EXPECT_THAT(head().difference(other, true), HasSubstr("written anew"));
  other.sizes = "4444444444444444";
  EXPECT_THAT(head().difference(other, false), HasSubstr("changed their size"));
  other.source = "5555555555555555";
  EXPECT_THAT(head().difference(other, false), HasSubstr("came, went"));
}

TEST(PackLock, IsFreeAgainWhenItsHolderIsGone) {
  const TempDir dir;
  const auto folder = PackFolder::open(dir.path(), /*create=*/false);
  ASSERT_TRUE(folder);
  {
    const auto first = PackLock::take(*folder, {});
    ASSERT_TRUE(first);
    const auto second = PackLock::take(*folder, {});
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr("process " + std::to_string(getpid())));
    EXPECT_FALSE(PackLock::take(*folder, {1, 2}));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  EXPECT_TRUE(PackLock::take(*folder, {1, 2}));
}

TEST(ExcludeList, KnowsSamplesByShardAndKey) {
  const TempDir dir;
  const std::string path = dir.write("bad.jsonl",
                                     "{\"shard\": \"/data/a.tar\", \"key\": \"k\", \"reason\": "
                                     "\"cut\"}\n\n{\"shard\": null, \"key_hex\": \"61ff\"}\n");
  ExcludeList list(path);
  list.find_shards({"a.tar", "b.tar"});
  ASSERT_NE(list.reason("a.tar", "k"), nullptr);
  EXPECT_EQ(*list.reason("a.tar", "k"), "cut");
  EXPECT_EQ(list.reason("b.tar", "k"), nullptr);
  EXPECT_EQ(list.reason("", "k"), nullptr);
  EXPECT_NE(list.reason("", "a\xff"), nullptr);
}

TEST(ExcludeList, NamesTheLineThatIsNone) {
  const TempDir dir;
  const std::string path = dir.write("bad.jsonl", "{\"key\": \"k\"}\n{\"shard\": \"a.tar\"}\n");
  try {
    const ExcludeList list(path);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("line 2"));
  }
}

}  // namespace
}  // namespace feedrace::pack
