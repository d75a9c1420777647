// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/mounts.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const char* const kTable =
    "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n"
    "31 27 0:23 / /dev/shm rw - tmpfs tmpfs rw,size=1k\n"
    "32 27 0:44 / /data rw,noatime shared:2 master:1 propagate_from:2 - xfs /dev/nvme0n1p2 rw\n"
    "33 32 0:45 / /data/my\\040set\\134x rw - nfs4 server:/a\\040b rw,vers=4.2\n"
    "34 27 0:46 / /database ro - btrfs /dev/sdb ro,compress=zstd:3\n"
    "35 32 0:47 / /data rw - fuse.sshfs host: rw\n";

TEST(ParseMounts, ReadsEveryField) {
  const auto mounts = parse_mounts(kTable);
  ASSERT_THAT(mounts, SizeIs(6));
  EXPECT_EQ(mounts[0].point, "/");
  EXPECT_EQ(mounts[0].type, "ext4");
  EXPECT_EQ(mounts[0].source, "/dev/vda");
  EXPECT_EQ(mounts[0].options, "rw,relatime,discard");
  EXPECT_EQ(mounts[2].options, "rw,noatime");
  EXPECT_EQ(mounts[3].point, "/data/my set\\x");
  EXPECT_EQ(mounts[3].source, "server:/a b");
  EXPECT_EQ(mounts[4].options, "ro,compress=zstd:3");
}

TEST(ParseMounts, LetsTheMountSayWhetherItMayBeWritten) {
  const auto mounts = parse_mounts("1 1 0:1 / / rw,relatime - overlay overlay ro,relatime,uuid=on");
  ASSERT_THAT(mounts, SizeIs(1));
  EXPECT_EQ(mounts[0].options, "rw,relatime,uuid=on");
}

TEST(ParseMounts, LeavesOutLinesThatAreNoMounts) {
  for (const char* line :
       {"", "\n\n", "27", "27 1 254:0 / /", "27 1 254:0 / / rw", "27 1 254:0 / / rw - ",
        "27 1 254:0 / / rw -", "27 1 254:0 / / rw - ext4", "27 1 254:0 / / rw shared:1",
        "27 1 254:0 / / rw shared:1 ext4 /dev/vda rw", "27 1 254:0 / here rw - ext4 /dev/vda rw",
        "27 1 254:0 /  rw - ext4 /dev/vda rw"}) {
    EXPECT_THAT(parse_mounts(line), IsEmpty()) << '"' << line << '"';
  }
}

TEST(ParseMounts, TakesALineWithoutOptionsOfTheFileSystem) {
  const auto mounts = parse_mounts("27 1 254:0 / / rw - ext4 /dev/vda");
  ASSERT_THAT(mounts, SizeIs(1));
  EXPECT_EQ(mounts[0].options, "rw");
}

TEST(ParseMounts, LeavesAloneWhatOnlyLooksLikeAnEscape) {
  const auto mounts =
      parse_mounts("1 1 0:1 / /a\\ rw - t \\04 rw\n1 1 0:1 / /\\999 rw - t \\400\\12 rw");
  ASSERT_THAT(mounts, SizeIs(2));
  EXPECT_EQ(mounts[0].point, "/a\\");
  EXPECT_EQ(mounts[0].source, "\\04");
  EXPECT_EQ(mounts[1].point, "/\\999");
  EXPECT_EQ(mounts[1].source, "\\400\\12");
}

/// Damages a good table; under the sanitizers any access outside of the text would show.
TEST(ParseMounts, SurvivesDamage) {
  std::uint64_t state = 1;
  const auto draw = [&](std::size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % bound;
  };
  for (int round = 0; round < 2000; ++round) {
    std::string text = kTable;
    for (std::size_t i = draw(6); i > 0; --i) text[draw(text.size())] = " \\-\n0/\xff"[draw(7)];
    text.resize(draw(text.size()) + 1);
    for (const Mount& mount : parse_mounts(text)) {
      EXPECT_TRUE(mount.point.starts_with('/')) << text;
      EXPECT_TRUE(mount_of({mount}, mount.point).has_value()) << text;
    }
  }
}

TEST(MountOf, TakesTheNearest) {
  const auto mounts = parse_mounts(kTable);
  const auto type_of = [&](const char* path) { return mount_of(mounts, path)->type; };
  EXPECT_EQ(type_of("/srv/a.tar"), "ext4");
  EXPECT_EQ(type_of("/dev/shm/a.tar"), "tmpfs");
  EXPECT_EQ(type_of("/database/a"), "btrfs");
  EXPECT_EQ(type_of("/databases"), "ext4");
  EXPECT_EQ(type_of("/data/my set\\x/a"), "nfs4");
  EXPECT_EQ(type_of("/data"), "fuse.sshfs");  // The later one covers the earlier.
}

TEST(MountOf, IsNothingWhereNoMountIsAbove) {
  EXPECT_FALSE(mount_of({}, "/a"));
  EXPECT_FALSE(mount_of(parse_mounts("1 1 0:1 / /b rw - t s rw"), "/a"));
  EXPECT_FALSE(mount_of(parse_mounts(kTable), "relative"));
}

TEST(OverlayLayers, ListsUpperAndLower) {
  EXPECT_THAT(overlay_layers("rw,relatime,lowerdir=/l1:/l2,upperdir=/u,workdir=/w"),
              ElementsAre("/l1", "/l2", "/u"));
  EXPECT_THAT(overlay_layers("ro,lowerdir+=/l1,lowerdir+=/l2"), ElementsAre("/l1", "/l2"));
}

TEST(OverlayLayers, IsEmptyWhereNotAllIsKnown) {
  for (const char* options : {"", "rw", "rw,upperdir=/u", "lowerdir=l1:/l2", "lowerdir=/l1:",
                              "lowerdir=/l1::/data", "lowerdir=/a\\:b", "lowerdir="}) {
    EXPECT_THAT(overlay_layers(options), IsEmpty()) << options;
  }
}

}  // namespace
}  // namespace feedrace::host
