// SPDX-License-Identifier: Apache-2.0
// cuFile as a back end, on the stub libraries.
#include "feedrace/cuda/direct_backend.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/cuda/test_direct.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::cuda {
namespace {

using storage::Completion;
using storage::ReadRequest;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t kSlabBytes = 16 * kPage;

class DirectBackendTest : public OnStubs {
 protected:
  DirectBackendTest() {
    system_.write("proc/modules", "");
    std::filesystem::create_directories(system_.path() / "run/udev");
    std::filesystem::create_directories(system_.path() / "dev");
    path_ = files_.write("data", content_);
  }
  ~DirectBackendTest() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
  }

  void stub(const std::string& name, const std::string& value) {
    set_.push_back("FEEDRACE_STUB_CUFILE_" + name);
    setenv(set_.back().c_str(), value.c_str(), 1);
  }
  Result<std::shared_ptr<Direct>> open_direct(bool allow_compatible = true, int ordinal = 0) {
    return Direct::open(device(ordinal), {allow_compatible, system_.path().string()});
  }
  void make(bool allow_compatible = true, std::size_t depth = 32) {
    auto direct = open_direct(allow_compatible);
    ASSERT_TRUE(direct) << direct.error().message;
    memory_ = std::make_shared<DirectMemory>(*direct, kSlabBytes);
    backend_ = std::make_unique<DirectBackend>(memory_, depth, log_);
  }
  void TearDown() override {
    backend_.reset();
    memory_.reset();
  }

  /// The stub's device memory is the host's.
  std::string at(std::size_t begin, std::size_t bytes) const {
    return {reinterpret_cast<const char*>(memory_->bytes().data()) + begin, bytes};
  }
  ReadRequest request_of(const storage::File* file, std::uint64_t offset, std::size_t memory_at,
                         std::size_t bytes, std::uint64_t user_data = 0) const {
    return {file, nullptr, offset, memory_->bytes().subspan(memory_at, bytes), user_data};
  }
  Completion read(const ReadRequest& request) {
    EXPECT_EQ(backend_->submit({&request, 1}), 1U);
    std::array<Completion, 1> done;
    EXPECT_EQ(backend_->wait(done, 1), 1U);
    return done[0];
  }
  Completion read_whole(const std::string& path, std::size_t bytes = 4 * kPage) {
    return read({nullptr, path.c_str(), 0, memory_->bytes().first(bytes), 0});
  }
  std::unique_ptr<storage::File> open() {
    auto file = backend_->open(path_);
    EXPECT_TRUE(file) << file.error().message;
    return *std::move(file);
  }

  const testing::TempDir system_;
  const testing::TempDir files_;
  const std::string content_ = content_of(3 * kPage + 1000);
  std::string path_;
  const std::shared_ptr<storage::FallbackLog> log_ = std::make_shared<storage::FallbackLog>();
  std::shared_ptr<DirectMemory> memory_;
  std::unique_ptr<DirectBackend> backend_;
  std::vector<std::string> set_;
};

TEST_F(DirectBackendTest, ReadsRangesIntoItsMemory) {
  make();
  const auto file = open();
  EXPECT_EQ(file->uri(), path_);
  EXPECT_EQ(file->size_bytes(), content_.size());
  EXPECT_EQ(file->alignment_bytes(), kBlock);
  EXPECT_TRUE(backend_->register_memory(memory_->bytes()));
  const Completion done = read(request_of(file.get(), kBlock, 2 * kPage, kPage, 42));
  ASSERT_TRUE(done.bytes_read) << done.bytes_read.error().message;
  EXPECT_EQ(*done.bytes_read, kPage);
  EXPECT_EQ(done.user_data, 42U);
  EXPECT_EQ(done.path, Path::kGds);
  EXPECT_EQ(at(2 * kPage, kPage), content_.substr(kBlock, kPage));
  const Completion end = read(request_of(file.get(), 3 * kPage, 0, kPage));
  EXPECT_EQ(*end.bytes_read, 1000U);
  EXPECT_THAT(log_->counts(), IsEmpty());
}

TEST_F(DirectBackendTest, ReadsWholeFiles) {
  make();
  const Completion done = read_whole(path_);
  ASSERT_TRUE(done.bytes_read) << done.bytes_read.error().message;
  EXPECT_EQ(*done.bytes_read, content_.size());
  EXPECT_EQ(at(0, content_.size()), content_);
  EXPECT_EQ(done.path, Path::kGds);
  EXPECT_EQ(feedrace_stub_calls("cuFileHandleRegister"),
            feedrace_stub_calls("cuFileHandleDeregister"));
}

TEST_F(DirectBackendTest, GoesOnAfterShortReads) {
  stub("MOST_BYTES", "10000");
  make();
  EXPECT_EQ(*read_whole(path_).bytes_read, content_.size());
  EXPECT_EQ(at(0, content_.size()), content_);
}

TEST_F(DirectBackendTest, CountsWhatCuFileCopiesAsCopied) {
  stub("PATH", "compat");
  make();
  const Completion done = read_whole(path_);
  EXPECT_EQ(*done.bytes_read, content_.size());
  EXPECT_EQ(done.path, Path::kGdsCompat);
  ASSERT_THAT(log_->counts(), SizeIs(1));
  EXPECT_THAT(log_->counts()[0].sentence, HasSubstr("copies through the host's memory"));
  EXPECT_EQ(log_->counts()[0].count, 1U);
}

TEST_F(DirectBackendTest, CountsWhatNobodyTellsAsCopied) {
  stub("PATH", "silent");
  make();
  EXPECT_EQ(read_whole(path_).path, Path::kGdsCompat);
  ASSERT_THAT(log_->counts(), SizeIs(1));
  EXPECT_THAT(log_->counts()[0].sentence, HasSubstr("does not tell"));
}

TEST_F(DirectBackendTest, RefusesWhatWouldBeCopiedWhereThatIsNotAllowed) {
  for (const char* path : {"compat", "sneaky"}) {
    stub("PATH", path);
    make(/*allow_compatible=*/false);
    const auto file = backend_->open(path_);
    ASSERT_FALSE(file) << path;
    EXPECT_EQ(file.error().code, ErrorCode::kUnsupported) << file.error().message;
    EXPECT_THAT(file.error().message, HasSubstr(path_));
    EXPECT_FALSE(read_whole(path_).bytes_read);
    TearDown();
  }
}

TEST_F(DirectBackendTest, GivesTheErrorsOfReadsAndGoesOn) {
  make();
  const auto file = open();
  const auto failure_of_read = [&](int code) {
    feedrace_stub_fail("cuFileRead", 1, code);
    const Completion done = read(request_of(file.get(), 0, 0, kPage));
    EXPECT_FALSE(done.bytes_read);
    return done.bytes_read ? Failure{} : done.bytes_read.error();
  };
  EXPECT_EQ(failure_of_read(EIO).code, ErrorCode::kIo);
  EXPECT_THAT(failure_of_read(EIO).message,
              AllOf(HasSubstr("Input/output error"), HasSubstr(path_)));
  EXPECT_THAT(failure_of_read(5036).message, HasSubstr("5036"));
  EXPECT_TRUE(read(request_of(file.get(), 0, 0, kPage)).bytes_read);
}

TEST_F(DirectBackendTest, ZeroBytesOfAFileThatGoesOnAreAFailure) {
  stub("ZERO_FROM", "65536");
  make();
  const auto file = open();
  EXPECT_TRUE(read(request_of(file.get(), 0, 0, kPage)).bytes_read);
  const Completion done = read(request_of(file.get(), kPage, 0, kPage));
  ASSERT_FALSE(done.bytes_read);
  EXPECT_EQ(done.bytes_read.error().code, ErrorCode::kIo);
}

TEST_F(DirectBackendTest, RefusesWhatItCanNotReadInto) {
  make();
  const auto file = open();
  std::vector<std::byte> elsewhere(kPage);
  EXPECT_FALSE(backend_->register_memory(elsewhere));
  const Completion out = read({file.get(), nullptr, 0, elsewhere, 0});
  EXPECT_THAT(out.bytes_read.error().message, HasSubstr("not in the memory that cuFile reads"));
  const Completion odd = read(request_of(file.get(), 100, 0, kBlock));
  EXPECT_THAT(odd.bytes_read.error().message, HasSubstr("multiples of 4096"));
}

TEST_F(DirectBackendTest, SaysWhatCanNotBeOpened) {
  make();
  const auto absent = backend_->open(files_ / "absent");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  const auto folder = backend_->open(files_.path().string());
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr(files_.path().string()));
  const Completion whole = read_whole(files_ / "absent");
  EXPECT_EQ(whole.bytes_read.error().code, ErrorCode::kNotFound);
  feedrace_stub_fail("cuFileHandleRegister", 1, 5027);
  const auto refused = backend_->open(path_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr(path_), HasSubstr("5027")));
}

TEST_F(DirectBackendTest, SaysWhatIsMissing) {
  std::filesystem::remove(system_.path() / "proc/modules");
  const auto direct = open_direct();
  ASSERT_FALSE(direct);
  EXPECT_EQ(direct.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(direct.error().message, HasSubstr("/proc/modules"));
}

TEST_F(DirectBackendTest, MemoryThatCanNotBeRegisteredIsGivenBack) {
  auto direct = open_direct();
  ASSERT_TRUE(direct);
  feedrace_stub_fail("cuFileBufRegister", 1, 5036);
  EXPECT_THROW(DirectMemory(*direct, kSlabBytes), Error);
  feedrace_stub_set_memory(kPage);
  EXPECT_THROW(DirectMemory(*direct, kSlabBytes), Error);
}

TEST_F(DirectBackendTest, EveryReadEndsOnceAlsoWhenCancelled) {
  make(true, 16);
  const auto file = open();
  std::vector<ReadRequest> requests;
  for (std::uint64_t i = 0; i < 16; ++i) {
    requests.push_back(request_of(file.get(), 0, i * kPage, kPage, i));
  }
  ASSERT_EQ(backend_->submit(requests), 16U);
  backend_->cancel_all();
  std::map<std::uint64_t, int> ended;
  std::array<Completion, 16> done;
  while (ended.size() < 16) {
    const std::size_t count = backend_->wait(done, 1);
    ASSERT_GT(count, 0U);
    for (std::size_t i = 0; i < count; ++i) {
      ++ended[done[i].user_data];
      if (!done[i].bytes_read) {
        EXPECT_EQ(done[i].bytes_read.error().code, ErrorCode::kCancelled);
      }
    }
  }
  EXPECT_EQ(backend_->wait(done, 1), 0U);
  EXPECT_TRUE(read(requests[0]).bytes_read);
}

TEST_F(DirectBackendTest, IsDestroyedWithReadsInFlight) {
  make(true, 16);
  const auto file = open();
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < 16; ++i) {
    requests.push_back(request_of(file.get(), 0, i * kPage, kPage));
  }
  EXPECT_EQ(backend_->submit(requests), 16U);
  backend_.reset();
  EXPECT_EQ(feedrace_stub_is_device_memory(memory_->bytes().data(), kPage), 1);
}

TEST_F(DirectBackendTest, ServesTwoDevices) {
  feedrace_stub_set_devices(2);
  make();
  auto direct = open_direct(true, 1);
  ASSERT_TRUE(direct) << direct.error().message;
  const auto memory = std::make_shared<DirectMemory>(*direct, kSlabBytes);
  DirectBackend other(memory, 4, log_);
  const ReadRequest request{nullptr, path_.c_str(), 0, memory->bytes().first(4 * kPage), 0};
  EXPECT_EQ(other.submit({&request, 1}), 1U);
  EXPECT_EQ(*read_whole(path_).bytes_read, content_.size());
  std::array<Completion, 1> done;
  EXPECT_EQ(other.wait(done, 1), 1U);
  EXPECT_EQ(*done[0].bytes_read, content_.size());
  EXPECT_EQ(std::memcmp(memory->bytes().data(), content_.data(), content_.size()), 0);
}

}  // namespace
}  // namespace feedrace::cuda
