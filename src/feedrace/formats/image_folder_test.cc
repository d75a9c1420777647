// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/image_folder.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/formats/decoded_pictures.h"
#include "feedrace/formats/folder_walk.h"
#include "feedrace/formats/test_cases.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

namespace fs = std::filesystem;
using feedrace::testing::TempDir;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<std::string> keys_of(const Dataset& set) {
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < set.size(); ++i) keys.push_back(set.key(i));
  return keys;
}

TEST(ImageFolder, OrdersByFolderThenNameAsTorchvisionDoes) {
  const TempDir folder;
  for (const char* name :
       {"a/z.jpg", "a/b/1.jpg", "a/b-c/1.jpg", "a/b/d/1.jpg", "a/B.jpg", "Z/1.jpg"}) {
    folder.write(name, "");
  }
  const auto set = open_dataset({folder.path()});
  EXPECT_THAT(keys_of(*set), ElementsAre("Z/1.jpg", "a/B.jpg", "a/z.jpg", "a/b/1.jpg",
                                         "a/b-c/1.jpg", "a/b/d/1.jpg"));
  EXPECT_THAT(set->classes(), ElementsAre("Z", "a"));
}

TEST(ImageFolder, TakesNoIndexOfShardsForAClass) {
  const TempDir folder;
  folder.write("a/1.jpg", "");
  folder.write("shards.frindex/meta.json", "{}");
  folder.write("t.frindex/1.jpg", "");
  folder.write("z/1.jpg", "");
  const auto set = open_dataset({folder.path()});
  EXPECT_THAT(set->classes(), ElementsAre("a", "t.frindex", "z"));
  EXPECT_EQ(*set->label(2), 2);
  EXPECT_EQ(set->label_source(), "class folders");
}

TEST(ImageFolder, TakesDecodedPicturesWhereThereAreNoOthers) {
  const TempDir folder;
  folder.write("a/1.npy", "");
  folder.write("a/2.NPY.ZST", "");
  folder.write("b/1.npy.lz4", "");
  folder.write("b/notes.txt", "");
  const auto set = open_dataset({folder.path()});
  EXPECT_THAT(keys_of(*set), ElementsAre("a/1.npy", "a/2.NPY.ZST", "b/1.npy.lz4"));
  EXPECT_TRUE(holds_decoded(*set));
  // Beside a picture they are masks or features, in any class.
  folder.write("b/2.jpg", "");
  const auto mixed = open_dataset({folder.path()});
  EXPECT_THAT(keys_of(*mixed), ElementsAre("b/2.jpg"));
  EXPECT_FALSE(holds_decoded(*mixed));
}

TEST(ImageFolder, IsTheSameForAnyNumberOfThreads) {
  const TempDir folder;
  for (int i = 0; i < 300; ++i) folder.write(fmt::format("c{}/{}.png", i % 17, i), "");
  OpenOptions options;
  options.thread_count = 1;
  const auto one = open_dataset({folder.path()}, options);
  options.thread_count = 8;
  const auto many = open_dataset({folder.path()}, options);
  EXPECT_EQ(keys_of(*one), keys_of(*many));
  EXPECT_EQ(one->fingerprint(), many->fingerprint());
  EXPECT_EQ(one->size(), 300u);
}

TEST(ImageFolder, FingerprintFollowsKeysAndClassesNotThePlace) {
  const TempDir one;
  const TempDir two;
  one.write("a/1.jpg", "x");
  two.write("a/1.jpg", "another size");
  const std::string base = open_dataset({one.path()})->fingerprint();
  EXPECT_EQ(open_dataset({two.path()})->fingerprint(), base);
  two.write("a/2.jpg", "");
  EXPECT_NE(open_dataset({two.path()})->fingerprint(), base);
}

TEST(ImageFolder, HasAPartForEachClassFolderAlsoForAnEmptyOne) {
  const TempDir folder;
  folder.write("a/1.jpg", "");
  folder.write("a/2.jpg", "");
  folder.write("b/readme", "");
  folder.write("c/1.jpg", "");
  const std::vector<Part> before = open_dataset({folder.path()})->parts();
  ASSERT_EQ(before.size(), 3u);
  EXPECT_EQ(before[0].name, "a");
  EXPECT_EQ(before[0].first_sample, 0u);
  EXPECT_EQ(before[1].name, "b");
  EXPECT_EQ(before[1].first_sample, 2u);
  EXPECT_EQ(before[2].name, "c");
  EXPECT_EQ(before[2].first_sample, 2u);
  folder.write("a/3.jpg", "");
  const std::vector<Part> after = open_dataset({folder.path()})->parts();
  EXPECT_NE(after[0].digest, before[0].digest);
  EXPECT_EQ(after[1].digest, before[1].digest);
  EXPECT_EQ(after[2].digest, before[2].digest);
  EXPECT_EQ(after[2].first_sample, 3u);
}

TEST(ImageFolder, ReportsWhatItLeavesOut) {
  const TempDir folder;
  folder.write("a/1.jpg", "");
  folder.write("top.png", "");
  folder.write("top.txt", "");
  fs::create_symlink("gone", folder.path() / "dangling");
  fs::create_symlink("gone.jpg", folder.path() / "a/dangling.jpg");
  fs::create_symlink("..", folder.path() / "a/up");
  ASSERT_EQ(mkfifo((folder / "a/pipe.jpg").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((folder / "a/pipe").c_str(), 0600), 0);
  const auto set = open_dataset({folder.path()});
  EXPECT_THAT(keys_of(*set), ElementsAre("a/1.jpg"));
  EXPECT_THAT(set->warnings(), Contains(HasSubstr("no class: top.png (1 in all)")));
  EXPECT_THAT(
      set->warnings(),
      Contains(HasSubstr("links to nothing left out: dangling, a/dangling.jpg (2 in all)")));
  EXPECT_THAT(
      set->warnings(),
      Contains(HasSubstr("no regular files (pipe, socket or device): a/pipe.jpg (1 in all)")));
  EXPECT_THAT(set->warnings(), Contains(HasSubstr("links to a folder above left out: a/up")));
  EXPECT_EQ(set->warnings().size(), 4u);
}

TEST(ImageFolder, NamesPicturesOfKindsThatItDoesNotDecode) {
  const TempDir folder;
  for (const char* name : {"a/1.jpg", "a/1.bmp", "a/b/2.BMP", "a/3.tif", "a/4.gif", "a/5.txt",
                           "a/gif", "a/6.bmp.txt", "top.bmp"}) {
    folder.write(name, "");
  }
  fs::create_directory(folder.path() / "a/folder.bmp");
  const auto set = open_dataset({folder.path()});
  EXPECT_THAT(keys_of(*set), ElementsAre("a/1.jpg"));
  EXPECT_THAT(set->warnings(),
              UnorderedElementsAre(HasSubstr("as .bmp is not decoded (torchvision's ImageFolder "
                                             "has these samples; convert them to .png): a/1.bmp, "
                                             "a/b/2.BMP (2 in all)"),
                                   HasSubstr("as .tif is not decoded (torchvision's"),
                                   HasSubstr("as .gif is not decoded: a/4.gif (1 in all)")));
}

TEST(ImageFolder, SaysThatAFolderHasOnlyWhatItDoesNotDecode) {
  const TempDir folder;
  folder.write("a/1.ppm", "");
  try {
    open_dataset({folder.path()});
    FAIL() << "it was opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("as .ppm is not decoded"));
  }
}

TEST(ImageFolder, KeepsTheNumberOfAFolderThatCannotBeRead) {
  const TempDir folder;
  folder.write("root/a/1.jpg", "");
  folder.write("root/b/1.jpg", "");
  chmod(folder.path().c_str(), 0755);
  chmod((folder / "root/a").c_str(), 0000);
  EXPECT_TRUE(testing::holds_for_ordinary_user([&] {
    const auto set = open_dataset({folder / "root"});
    EXPECT_THAT(set->classes(), ElementsAre("a", "b"));
    EXPECT_THAT(keys_of(*set), ElementsAre("b/1.jpg"));
    EXPECT_EQ(*set->label(0), 1);
    EXPECT_THAT(set->warnings(),
                Contains(HasSubstr("cannot be read (open: Permission denied): a")));
  }));
  chmod((folder / "root/a").c_str(), 0700);
}

TEST(ImageFolder, LeavesPathsOutThatTheSystemCannotOpen) {
  const TempDir folder;
  folder.write("a/1.jpg", "");
  // Made step by step from inside: the whole path is longer than any call takes.
  const int back = open(".", O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(chdir((folder / "a").c_str()), 0);
  const std::string part(250, 'd');
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(mkdir(part.c_str(), 0700), 0);
    ASSERT_EQ(chdir(part.c_str()), 0);
    close(creat("x.jpg", 0600));
  }
  ASSERT_EQ(fchdir(back), 0);
  close(back);
  const auto set = open_dataset({folder.path()});
  EXPECT_GT(set->size(), 10u);
  EXPECT_LT(set->size(), 21u);
  for (std::uint64_t i = 0; i < set->size(); ++i) {
    EXPECT_LT(set->path(i).size(), std::size_t{PATH_MAX});
    EXPECT_EQ(access(set->path(i).c_str(), R_OK), 0);
  }
  EXPECT_THAT(set->warnings(), Contains(HasSubstr("longer than the system opens")));
}

TEST(ImageFolder, RefusesALabelFileInsteadOfIgnoringIt) {
  const TempDir folder;
  folder.write("a/1.jpg", "");
  OpenOptions options;
  options.label_file = folder.write("labels.txt", "a/1.jpg 1\n");
  EXPECT_THROW(open_dataset({folder.path()}, options), Error);
}

TEST(HasImageEnding, LooksAtTheLastEndingInAnyCase) {
  for (const char* name : {"a.jpg", "a.JPEG", "a.b.Png", "a.weBP", ".jpg"})
    EXPECT_TRUE(has_ending_of(name, OpenOptions().file_endings)) << name;
  for (const char* name : {"a.jpgx", "a.jpg.txt", "jpg", "a.gif", "", "ajpg"})
    EXPECT_FALSE(has_ending_of(name, OpenOptions().file_endings)) << name;
}

}  // namespace
}  // namespace feedrace::formats
