// SPDX-License-Identifier: Apache-2.0
// Reads by cuFile: one by one, in batches, on streams.
#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "feedrace/cuda/test_direct.h"

namespace feedrace::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DirectReadTest : public DirectTest {};

// --- reads
// ------------------------------------------------------------------------------------------------

TEST_F(DirectReadTest, ReadsTheBytesOfTheFile) {
  const std::string content = content_of(3 * kPage);
  open_all(content);
  const Outcome came = read(kPage, 2 * kBlock, kPage);
  ASSERT_EQ(came.text, "");
  EXPECT_EQ(came.bytes, kPage);
  EXPECT_EQ(read_back(kPage, kPage), content.substr(2 * kBlock, kPage));
  EXPECT_EQ(read_back(0, kPage), std::string(kPage, 0x55));
  EXPECT_EQ(read_back(2 * kPage, kPage), std::string(kPage, 0x55));
}

TEST_F(DirectReadTest, AnAlignedReadOverTheEndGivesWhatThereIs) {
  const std::string content = content_of(kPage + 1000);
  open_all(content);
  const Outcome came = read(2 * kBlock, kPage);
  EXPECT_EQ(came.text, "");
  EXPECT_EQ(came.bytes, 1000U);
  EXPECT_EQ(read_back(0, 1000), content.substr(kPage));
  EXPECT_EQ(read(kBlock, 2 * kPage).bytes, 0U);
  EXPECT_EQ(read(0, 0).status, 0);
}

TEST_F(DirectReadTest, GoesOnAfterShortReadsFromTheLastWholeBlock) {
  const std::string content = content_of(3 * kPage);
  stub("MOST_BYTES", "10000");
  open_all(content);
  const Outcome came = read(3 * kPage, 0);
  ASSERT_EQ(came.text, "");
  EXPECT_EQ(came.bytes, 3 * kPage);
  EXPECT_EQ(read_back(0, 3 * kPage), content);
  EXPECT_GE(feedrace_stub_calls("cuFileRead"), 24U);  // 8192 bytes each, and the probe.
}

TEST_F(DirectReadTest, ReadsThatNeverGetOverABlockFail) {
  stub("MOST_BYTES", "1000");
  open_all(content_of(kPage));
  const Outcome came = read(kPage, 0);
  EXPECT_EQ(came.status, FEEDRACE_CUDA_IO);
  EXPECT_THAT(came.text, HasSubstr("no more than 1000 of 65536 bytes came"));
}

TEST_F(DirectReadTest, NothingOfAFileThatGoesOnIsAFailure) {
  stub("ZERO_FROM", "65536");
  open_all(content_of(3 * kPage));
  EXPECT_EQ(read(kPage, 0).text, "");
  const Outcome came = read(kPage, kPage);
  EXPECT_EQ(came.status, FEEDRACE_CUDA_IO);
  EXPECT_THAT(came.text, AllOf(HasSubstr("65536 bytes at 65536 of " + path_),
                               HasSubstr("no more than 0 of 65536"), HasSubstr("nvidia-smi")));
}

TEST_F(DirectReadTest, AProbeThatGivesNothingIsAFailure) {
  stub("ZERO_FROM", "0");
  ASSERT_EQ(open_direct().text, "");
  const Descriptor file(files_.write("data", content_of(kBlock)), O_RDONLY | O_DIRECT);
  --handles_told_to_fail_;  // It was registered, and let go.
  EXPECT_THAT(open_file(file.number(), &file_).text, HasSubstr("gave 0 bytes without an error"));
}

TEST_F(DirectReadTest, AFileThatShrankEndsWhereItEndsNow) {
  const std::string content = content_of(3 * kPage);
  open_all(content);
  std::filesystem::resize_file(path_, kPage + 500);
  const Outcome came = read(2 * kPage, 0);
  EXPECT_EQ(came.text, "");
  EXPECT_EQ(came.bytes, kPage + 500);
  EXPECT_EQ(read_back(0, kPage + 500), content.substr(0, kPage + 500));
}

TEST_F(DirectReadTest, TellsErrorsOfReads) {
  open_all(content_of(kPage));
  feedrace_stub_fail("cuFileRead", 1, EIO);
  Outcome came = read(kPage, 0);
  EXPECT_EQ(came.status, FEEDRACE_CUDA_IO);
  EXPECT_THAT(came.text, AllOf(HasSubstr("errno 5 (Input/output error)"), HasSubstr(path_)));
  feedrace_stub_fail("cuFileRead", 1, 5036);
  came = read(kPage, 0);
  EXPECT_EQ(came.status, FEEDRACE_CUDA_NO_MEMORY);
  EXPECT_THAT(came.text, HasSubstr("5036 (pinning failed)"));
  EXPECT_EQ(counts().reads, 0U);
}

TEST_F(DirectReadTest, RefusesReadsThatCuFileWouldCopyOrThatGoBeyondTheMemory) {
  open_all(content_of(kPage));
  EXPECT_THAT(read(100, 0).text, HasSubstr("multiples of 4096"));
  EXPECT_THAT(read(kBlock, 512).text, HasSubstr("multiples of 4096"));
  EXPECT_THAT(read(kBlock, 0, 512).text, HasSubstr("multiples of 4096"));
  EXPECT_THAT(read(5 * kPage, 0).text, HasSubstr("only 262144 bytes are registered"));
  EXPECT_THAT(read(kBlock, 0, 4 * kPage).text, HasSubstr("only 262144 bytes"));
  EXPECT_THAT(read(kBlock, 0, 8 * kPage).text, HasSubstr("only 262144 bytes"));
  EXPECT_THAT(read(kBlock, std::uint64_t{1} << 63U).text, HasSubstr("no file is that long"));
  table().unregister_memory(direct_, memory_.address());
  EXPECT_THAT(read(kBlock, 0).text, HasSubstr("no memory was registered"));
}

TEST_F(DirectReadTest, ThreadsReadOneFileTogether) {
  const std::string content = content_of(4 * kPage);
  open_all(content);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (std::size_t at = 0; at < kPage; at += kBlock) {
          const Outcome came = read(kBlock, i * kPage + at, i * kPage + at);
          EXPECT_EQ(came.text, "");
        }
      });
    }
    // New file systems are probed while others read; this one is known, so it only opens.
    const Descriptor other(path_, O_RDONLY | O_DIRECT);
    feedrace_cuda_file* file = nullptr;
    EXPECT_EQ(open_file(other.number(), &file).text, "");
    table().close_file(file);
  }
  EXPECT_EQ(read_back(0, 4 * kPage), content);
  EXPECT_EQ(counts().reads, 64U);
}

// --- batches
// ----------------------------------------------------------------------------------------------------

class DirectBatchTest : public DirectTest {
 protected:
  /// One block each, the last ones first.
  std::vector<feedrace_cuda_direct_read> blocks(std::size_t count) {
    std::vector<feedrace_cuda_direct_read> reads(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (count - 1 - i) * kBlock;
      reads[i].file = file_;
      reads[i].base = memory_.address();
      reads[i].bytes = kBlock;
      reads[i].file_offset = reads[i].memory_offset = at;
      reads[i].status = -1;
    }
    return reads;
  }
  Outcome read_batch(std::vector<feedrace_cuda_direct_read>& reads) {
    feedrace_cuda_error error{};
    const int status =
        table().read_batch(direct_, reads.data(), static_cast<std::uint32_t>(reads.size()), &error);
    return {status, error.message};
  }
};

TEST_F(DirectBatchTest, ReadsMoreThanCuFileTakesAtOnce) {
  const std::string content = content_of(4 * kPage - 1000);
  stub("PATH", "compat");
  open_all(content);
  auto reads = blocks(64);
  ASSERT_EQ(read_batch(reads).text, "");
  EXPECT_EQ(read_back(0, content.size()), content);
  EXPECT_EQ(reads[0].bytes_read, kBlock - 1000);
  EXPECT_EQ(reads[63].bytes_read, kBlock);
  EXPECT_EQ(reads[63].status, 0);
  EXPECT_EQ(feedrace_stub_calls("cuFileBatchIOSubmit"), 2U);
  EXPECT_EQ(counts().compatible_bytes, content.size());
}

TEST_F(DirectBatchTest, CompletesShortReads) {
  const std::string content = content_of(2 * kPage);
  stub("MOST_BYTES", "9000");
  open_all(content);
  auto reads = blocks(1);
  reads[0].bytes = 2 * kPage;
  ASSERT_EQ(read_batch(reads).text, "");
  EXPECT_EQ(reads[0].bytes_read, 2 * kPage);
  EXPECT_EQ(read_back(0, 2 * kPage), content);
}

TEST_F(DirectBatchTest, ABadReadHasItsOwnStatusAndTheOthersArrive) {
  const std::string content = content_of(4 * kBlock);
  open_all(content);
  auto reads = blocks(4);
  reads[1].bytes = 100;
  reads[2].file_offset = kPage;  // Behind the end.
  feedrace_stub_fail("read of a batch", 1, EIO);
  const Outcome came = read_batch(reads);
  EXPECT_EQ(came.status, FEEDRACE_CUDA_INVALID);
  EXPECT_THAT(came.text, HasSubstr("multiples of 4096"));
  EXPECT_EQ(reads[0].status, FEEDRACE_CUDA_IO);
  EXPECT_EQ(reads[1].status, FEEDRACE_CUDA_INVALID);
  EXPECT_EQ(reads[2].status, FEEDRACE_CUDA_OK);
  EXPECT_EQ(reads[2].bytes_read, 0U);
  EXPECT_EQ(reads[3].status, FEEDRACE_CUDA_OK);
  EXPECT_EQ(read_back(0, kBlock), content.substr(0, kBlock));
}

TEST_F(DirectBatchTest, EveryCallOfABatchMayFail) {
  open_all(content_of(kPage));
  for (const auto& [call, code] : {std::pair{"cuFileBatchIOSetUp", 5039},
                                   {"cuFileBatchIOSubmit", 5049},
                                   {"cuFileBatchIOGetStatus", 5041}}) {
    feedrace_stub_fail(call, 1, code);
    auto reads = blocks(4);
    const Outcome came = read_batch(reads);
    EXPECT_THAT(came.text, AllOf(HasSubstr(call), HasSubstr(std::to_string(code))));
    for (const auto& read : reads) EXPECT_NE(read.status, 0);
  }
  auto reads = blocks(4);
  EXPECT_EQ(read_batch(reads).text, "");
}

TEST_F(DirectBatchTest, ABatchThatNeverEndsIsGivenUp) {
  stub("STUCK", "1");
  open_all(content_of(kPage));
  auto reads = blocks(2);
  EXPECT_THAT(read_batch(reads).text, HasSubstr("2 reads did not end within a minute"));
  EXPECT_EQ(feedrace_stub_calls("cuFileBatchIOCancel"), 1U);
}

TEST_F(DirectBatchTest, RefusesFilesOfAnotherReader) {
  open_all(content_of(kPage));
  auto reads = blocks(1);
  feedrace_cuda_direct* const own = direct_;
  ASSERT_EQ(open_direct().text, "");
  EXPECT_THAT(read_batch(reads).text, HasSubstr("opened by another reader"));
  table().close_direct(std::exchange(direct_, own));
}

// --- reads on a stream
// ----------------------------------------------------------------------------------------

class DirectAsyncTest : public DirectTest {
 protected:
  Outcome start(std::size_t bytes, std::uint64_t file_offset, const Stream& stream) {
    feedrace_cuda_error error{};
    const int status = table().read_async(file_, memory_.address(), bytes, file_offset, 0,
                                          stream.handle(), &pending_, &error);
    return {status, error.message};
  }
  Outcome finish() {
    feedrace_cuda_error error{};
    Outcome out;
    out.status = table().finish_read(pending_, &out.bytes, &error);
    out.text = error.message;
    return out;
  }
  static void wait(const std::shared_ptr<Device>& device, const Stream& stream) {
    Event event(device);
    event.record(stream.handle());
    event.wait();
  }

  feedrace_cuda_pending_read* pending_ = nullptr;
};

TEST_F(DirectAsyncTest, ReadsInTheOrderOfTheStream) {
  const std::string content = content_of(kPage + 700);
  open_all(content);
  feedrace_stub_set_delay_us(20000);
  const Stream stream(device_);
  ASSERT_EQ(start(2 * kPage, 0, stream).text, "");
  const Outcome early = finish();
  EXPECT_EQ(early.status, FEEDRACE_CUDA_INVALID);
  EXPECT_THAT(early.text, HasSubstr("has not come yet"));
  wait(device_, stream);
  const Outcome came = finish();
  EXPECT_EQ(came.text, "");
  EXPECT_EQ(came.bytes, content.size());
  EXPECT_EQ(read_back(0, content.size()), content);
  EXPECT_EQ(counts().direct_bytes, content.size());
}

TEST_F(DirectAsyncTest, CompletesShortReadsAndTellsFailures) {
  const std::string content = content_of(kPage);
  stub("MOST_BYTES", "50000");
  open_all(content);
  const Stream stream(device_);
  ASSERT_EQ(start(kPage, 0, stream).text, "");
  wait(device_, stream);
  EXPECT_EQ(finish().bytes, kPage);
  EXPECT_EQ(read_back(0, kPage), content);
  for (const auto& [code, text] : {std::pair{5044, "5044 (I/O error)"}, {EIO, "errno 5"}}) {
    feedrace_stub_fail("read on a stream", 1, code);
    ASSERT_EQ(start(kPage, 0, stream).text, "");
    wait(device_, stream);
    const Outcome came = finish();
    EXPECT_EQ(came.status, FEEDRACE_CUDA_IO);
    EXPECT_THAT(came.text, HasSubstr(text));
  }
  feedrace_stub_fail("cuFileReadAsync", 1, 5038);
  EXPECT_THAT(start(kPage, 0, stream).text, AllOf(HasSubstr("5038"), HasSubstr("use read ")));
}

TEST_F(DirectAsyncTest, ClosingWaitsForReadsThatNobodyFinished) {
  const std::string content = content_of(kPage);
  open_all(content);
  feedrace_stub_set_delay_us(20000);
  const Stream stream(device_);
  ASSERT_EQ(start(kPage, 0, stream).text, "");
  table().close_file(std::exchange(file_, nullptr));
  EXPECT_EQ(read_back(0, kPage), content);
}

}  // namespace
}  // namespace feedrace::cuda
