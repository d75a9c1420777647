// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/fixed_files.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/storage/posix_file.h"
#include "feedrace/storage/test_support.h"
#include "feedrace/storage/uring_backend.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::storage {
namespace {

using Place = std::shared_ptr<const FixedFile>;

/// A ring with a table, of which all but the first place are given out.
class FixedFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
    auto made = UringRing::create(8, {});
    ASSERT_TRUE(made) << made.error().message;
    ring_ = *std::move(made);
    ASSERT_TRUE(ring_->add_file_slots(1 + kPlaces));
    ASSERT_EQ(ring_->enable(), 0);
    table_ = std::make_shared<FixedFiles>(*ring_, 1, kPlaces);
  }

  /// A file of one letter.
  int fd_of(char letter) {
    const std::string path = folder_.write(std::string(1, letter), std::string(1, letter));
    fds_.emplace_back(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return fds_.back().get();
  }
  /// What stands at a place of the kernel's table; '?' where nothing does.
  char letter_at(unsigned index) {
    char letter = '?';
    io_uring_sqe* entry = io_uring_get_sqe(ring_->get());
    io_uring_prep_read(entry, static_cast<int>(index), &letter, 1, 0);
    entry->flags |= IOSQE_FIXED_FILE;
    io_uring_submit_and_wait(ring_->get(), 1);
    io_uring_cqe* done = nullptr;
    EXPECT_EQ(io_uring_peek_cqe(ring_->get(), &done), 0);
    if (done != nullptr) io_uring_cqe_seen(ring_->get(), done);
    return letter;
  }

  static constexpr unsigned kPlaces = 3;
  const testing::TempDir folder_;
  std::vector<FileDescriptor> fds_;
  std::unique_ptr<UringRing> ring_;
  std::shared_ptr<FixedFiles> table_;
};

TEST_F(FixedFilesTest, GivesEachFileAPlaceOfItsOwn) {
  const Place a = table_->add(fd_of('a'));
  const Place b = table_->add(fd_of('b'));
  const Place c = table_->add(fd_of('c'));
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(letter_at(a->index()), 'a');
  EXPECT_EQ(letter_at(b->index()), 'b');
  EXPECT_EQ(letter_at(c->index()), 'c');
  EXPECT_EQ(letter_at(0), '?');  // Not ours.
  EXPECT_TRUE(a->is_in(table_.get()));
  EXPECT_FALSE(a->is_in(nullptr));
  EXPECT_EQ(table_->add(fd_of('d')), nullptr);
}

TEST_F(FixedFilesTest, UsesThePlacesOfClosedFilesAgain) {
  std::array<Place, kPlaces> places;
  for (int i = 0; i < 300; ++i) {
    const auto letter = static_cast<char>('a' + i % 26);
    Place& place = places[static_cast<std::size_t>(i * 7 % 3)];
    place.reset();
    place = table_->add(fd_of(letter));
    ASSERT_NE(place, nullptr) << i;
    EXPECT_EQ(letter_at(place->index()), letter);
    // The kernel keeps those in its table open.
    if (fds_.size() > kPlaces) fds_.erase(fds_.begin());
  }
}

TEST_F(FixedFilesTest, EmptiesThePlacesOfClosedFiles) {
  Place a = table_->add(fd_of('a'));
  const unsigned index = a->index();
  a.reset();
  EXPECT_EQ(letter_at(index), 'a');  // Any thread may close it; the ring's takes it out.
  table_->release_closed();
  EXPECT_EQ(letter_at(index), '?');
}

TEST_F(FixedFilesTest, GivesNoPlaceToWhatIsNoFile) {
  EXPECT_EQ(table_->add(-7), nullptr);
  for (unsigned i = 0; i < kPlaces; ++i) {  // And loses none by it.
    fd_of('a');
  }
  std::vector<Place> all;
  for (const FileDescriptor& fd : fds_) all.push_back(table_->add(fd.get()));
  for (const Place& place : all) EXPECT_NE(place, nullptr);
}

TEST_F(FixedFilesTest, LetsFilesOutliveTheRing) {
  std::vector<Place> places;
  for (const char letter : {'a', 'b', 'c'}) places.push_back(table_->add(fd_of(letter)));
  places.pop_back();  // One is closed before, but not let go.
  table_->detach();
  ring_.reset();
  EXPECT_EQ(table_->add(fd_of('d')), nullptr);
  table_.reset();
  places.clear();
}

TEST_F(FixedFilesTest, LetsAnyThreadCloseFiles) {
  const int fd = fd_of('a');
  for (int i = 0; i < 500; ++i) {
    Place place = table_->add(fd);
    ASSERT_NE(place, nullptr);
    std::thread other([closing = std::move(place)]() mutable { closing.reset(); });
    table_->release_closed();
    other.join();
  }
}

/// Back ends whose tables hold different files at the same places.
class FixedFilesOfBackends : public ::testing::TestWithParam<Access> {
 protected:
  void SetUp() override {
    if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
    for (auto* backend : {&first_, &second_}) {
      UringOptions options;
      options.access.wanted = GetParam();
      auto made = UringBackend::create(options);
      ASSERT_TRUE(made) << made.error().message;
      *backend = *std::move(made);
    }
  }
  std::unique_ptr<File> open(UringBackend& backend, char letter) {
    const std::string path = folder_.write(std::string(1, letter), std::string(8192, letter));
    auto opened = backend.open(path);
    EXPECT_TRUE(opened);
    return opened ? *std::move(opened) : nullptr;
  }
  void expect_letter(UringBackend& backend, const File& file, char letter) {
    const auto memory = memory_.bytes();
    const Completion done = read_one(backend, {&file, nullptr, 0, memory, 0});
    ASSERT_TRUE(done.bytes_read) << done.bytes_read.error().message;
    EXPECT_EQ(*done.bytes_read, memory.size());
    EXPECT_TRUE(is_filled_with(memory, static_cast<std::byte>(letter)));
  }

  const testing::TempDir folder_;
  const HostMemory memory_{8192};
  std::unique_ptr<UringBackend> first_;
  std::unique_ptr<UringBackend> second_;
};

INSTANTIATE_TEST_SUITE_P(All, FixedFilesOfBackends,
                         ::testing::Values(Access::kPageCache, Access::kDirect));

TEST_P(FixedFilesOfBackends, AreReadThroughAnotherByTheirDescriptors) {
  const auto a = open(*first_, 'a');
  const auto b = open(*second_, 'b');
  const auto* in_first = dynamic_cast<const PosixFile*>(a.get());
  const auto* in_second = dynamic_cast<const PosixFile*>(b.get());
  ASSERT_TRUE(in_first->fixed && in_second->fixed);
  ASSERT_EQ(in_first->fixed->index(), in_second->fixed->index());
  expect_letter(*first_, *a, 'a');
  expect_letter(*second_, *a, 'a');
  expect_letter(*first_, *b, 'b');
}

TEST_P(FixedFilesOfBackends, AreReadThroughAnotherAfterTheirsHasEnded) {
  const auto a = open(*first_, 'a');
  const auto b = open(*second_, 'b');
  first_.reset();
  expect_letter(*second_, *a, 'a');
}

TEST_P(FixedFilesOfBackends, AreReplacedWhileOthersAreRead) {
  const auto kept = open(*first_, 'a');
  for (int i = 0; i < 200; ++i) {
    const auto letter = static_cast<char>('b' + i % 20);
    const auto passing = open(*first_, letter);
    ASSERT_NE(dynamic_cast<const PosixFile*>(passing.get())->fixed, nullptr) << i;
    expect_letter(*first_, *passing, letter);
    expect_letter(*first_, *kept, 'a');
  }
}

TEST_P(FixedFilesOfBackends, MayBeMoreThanThereArePlaces) {
  constexpr std::size_t kFiles = 1100;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 3 * kFiles) GTEST_SKIP() << limit.rlim_cur << " open files are too few";
  std::vector<std::unique_ptr<File>> files;
  std::size_t fixed = 0;
  for (std::size_t i = 0; i < kFiles; ++i) {
    files.push_back(open(*first_, static_cast<char>('a' + i % 26)));
    if (dynamic_cast<const PosixFile*>(files.back().get())->fixed) ++fixed;
  }
  EXPECT_EQ(fixed, 1024U);
  for (std::size_t i = 0; i < kFiles; i += 13) {
    expect_letter(*first_, *files[i], static_cast<char>('a' + i % 26));
  }
}

}  // namespace
}  // namespace feedrace::storage
