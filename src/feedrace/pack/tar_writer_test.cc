// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/tar_writer.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/formats/tar_reader.h"
#include "feedrace/formats/test_tar.h"

namespace feedrace::pack {
namespace {

using formats::TarMember;
using formats::TarReader;
using formats::testing::TextSource;

struct Member {
  std::string name;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

/// Every other one is smaller than what is aligned.
std::string payload_of(const std::string& name, std::size_t number) {
  std::string payload = "bytes of " + name;
  payload.resize(number % 2 == 0 ? kLeastAlignedBytes - 1 : kLeastAlignedBytes, '.');
  return payload;
}

std::string archive(const std::vector<std::string>& names, bool is_aligned) {
  std::string text;
  std::size_t number = 0;
  for (const std::string& name : names) {
    const std::string payload = payload_of(name, number++);
    const std::string head = tar_member_head(text.size(), name, payload.size(), is_aligned);
    EXPECT_EQ(head.size(), tar_head_bytes(text.size(), name, payload.size(), is_aligned)) << name;
    text += head + payload;
    text.append(tar_padding_bytes(payload.size()), '\0');
  }
  return text.append(tar_end_bytes(text.size(), is_aligned), '\0');
}

std::vector<Member> members_of(const std::string& text) {
  const TextSource source(text);
  TarReader reader(source, "a.tar");
  std::vector<Member> members;
  TarMember member;
  Result<bool> found = reader.next(member);
  for (; found && *found; found = reader.next(member)) {
    members.push_back({std::string(member.name), member.data_offset_bytes, member.size_bytes});
  }
  EXPECT_TRUE(found) << found.error().message;
  EXPECT_FALSE(reader.end_mark_missing());
  return members;
}

/// Names at and around each limit of the format.
std::vector<std::string> odd_names() {
  const std::string deep(150, 'd');
  return {"a",
          "cat/001.jpg",
          std::string(100, 'n'),
          std::string(101, 'n'),               // No slash to split at.
          deep + "/" + std::string(100, 'n'),  // Just splits.
          deep + "/" + std::string(101, 'n'),  // Just does not.
          deep + "dddddd/" + "n",              // A prefix of 156.
          "/" + std::string(100, 'n'),         // An empty prefix.
          std::string(3000, 'l') + "/x.jpg",
          "\xc3\xa9t\xc3\xa9/b.jpg",
          "odd\xff/c.jpg",
          std::string(120, 'o') + "\xff.jpg",
          "line\nbreak = 3.jpg"};
}

class TarWriter : public ::testing::TestWithParam<bool> {};

TEST_P(TarWriter, NamesAndPayloadsComeBack) {
  const std::vector<std::string> names = odd_names();
  const std::string text = archive(names, GetParam());
  const std::vector<Member> members = members_of(text);
  ASSERT_EQ(members.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(members[i].name, names[i]);
    EXPECT_EQ(text.substr(members[i].offset_bytes, members[i].size_bytes), payload_of(names[i], i));
  }
}

INSTANTIATE_TEST_SUITE_P(PlainAndAligned, TarWriter, ::testing::Bool());

TEST(AlignedTar, HasPayloadsAndItsEndAtTheAlignment) {
  const std::string text = archive(odd_names(), /*is_aligned=*/true);
  const std::vector<Member> members = members_of(text);
  std::uint64_t small_count = 0;
  for (const Member& member : members) {
    if (member.size_bytes >= kLeastAlignedBytes) {
      EXPECT_EQ(member.offset_bytes % kPayloadAlignmentBytes, 0U) << member.name;
    } else {
      ++small_count;
    }
  }
  EXPECT_EQ(small_count, (members.size() + 1) / 2);
  EXPECT_EQ(text.size() % kPayloadAlignmentBytes, 0U);
}

TEST(AlignedTar, HoldsAtEachOffset) {
  for (std::uint64_t block = 0; block < 16; ++block) {
    for (const std::string& name : odd_names()) {
      const std::string head = tar_member_head(512 * block, name, 700, /*is_aligned=*/true);
      EXPECT_EQ((512 * block + head.size()) % kPayloadAlignmentBytes, 0U) << block << " " << name;
    }
  }
}

TEST(AlignedTar, NeedsNoExtensionWhereThePayloadIsAlignedAnyway) {
  EXPECT_EQ(tar_head_bytes(4096 - 512, "a.jpg", 700, /*is_aligned=*/true), 512U);
}

TEST(AlignedTar, ALabelTakesTwoBlocks) {
  EXPECT_EQ(tar_head_bytes(512, "a.cls", 3, /*is_aligned=*/true) + 3 + tar_padding_bytes(3), 1024U);
}

TEST(Tar, IsUstarWhereThatHoldsEverything) {
  EXPECT_EQ(tar_head_bytes(0, "cat/001.jpg", 7, /*is_aligned=*/false), 512U);
  EXPECT_EQ(tar_head_bytes(0, std::string(155, 'd') + "/n.jpg", 7, /*is_aligned=*/false), 512U);
  // Raw, as GNU tar has it: pax would need a keyword of which GNU tar warns.
  EXPECT_EQ(tar_head_bytes(0, "odd\xff.jpg", 7, /*is_aligned=*/false), 512U);
  EXPECT_EQ(tar_head_bytes(0, "\xc3\xa9.jpg", 7, /*is_aligned=*/false), 1536U);
}

/// The size of the only member of an archive that only begins: its payload is not there.
std::uint64_t stored_size(std::uint64_t size_bytes) {
  class Sparse : public TextSource {
   public:
    Sparse(std::string text, std::uint64_t size_bytes)
        : TextSource(std::move(text)), size_bytes_(size_bytes) {}
    std::uint64_t size_bytes() const noexcept override { return size_bytes_; }

   private:
    std::uint64_t size_bytes_;
  };
  const std::string head = tar_member_head(0, "big.bin", size_bytes, /*is_aligned=*/false);
  const Sparse source(head + std::string(8192, '\0'), head.size() + size_bytes + 8192);
  TarReader reader(source, "a.tar");
  TarMember member;
  const Result<bool> found = reader.next(member);
  EXPECT_TRUE(found) << found.error().message;
  return member.size_bytes;
}

TEST(Tar, HoldsSizesBeyondEightGigabytes) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 33;
  for (const std::uint64_t size : {kLimit - 1, kLimit, 5 * kLimit + 3}) {
    EXPECT_EQ(stored_size(size), size);
  }
  EXPECT_EQ(tar_head_bytes(0, "big.bin", kLimit - 1, /*is_aligned=*/false), 512U);
}

}  // namespace
}  // namespace feedrace::pack
