// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/batch_upload.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <stop_token>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/cuda/test_stubs.h"

namespace feedrace::cuda {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::size_t kBytes = 20'000;

/// The host's side of a batch: pinned memory that tells when it is let go.
struct Source {
  Source(const BatchUpload& upload, unsigned char value)
      : memory(kBytes), pinned(upload.pin(memory.bytes())) {
    std::fill_n(memory.data(), kBytes, std::byte{value});
  }
  HostMemory memory;
  std::shared_ptr<const void> pinned;
};

std::shared_ptr<BatchUpload::Slot> upload_of(BatchUpload& upload,
                                             const std::shared_ptr<Source>& source) {
  const std::byte* begin = source->memory.data();
  const Piece pieces[] = {{begin, 10'000, 0}, {begin + 10'000, 10'000, 10'000}};
  auto slot = upload.acquire(kBytes, {});
  upload.fill(*slot, pieces, source);
  return slot;
}

class BatchUploadTest : public OnStubs {
 protected:
  /// What a consumer's stream reads of a batch, put behind what it has to do.
  std::vector<unsigned char> read(const std::shared_ptr<Device>& opened, Stream& consumer,
                                  BatchUpload::Slot& slot) {
    std::vector<unsigned char> bytes(kBytes);
    slot.hand_over(consumer.handle());
    consumer.copy_to_host(bytes.data(), slot.address(), bytes.size());
    Event done(opened);
    done.record(consumer.handle());
    done.wait();
    return bytes;
  }
};

TEST_F(BatchUploadTest, TheConsumersStreamSeesTheBatchHoweverLateTheCopyIs) {
  feedrace_stub_set_delay_us(300);
  const auto opened = device();
  const auto upload = BatchUpload::create(opened, 3, 8);
  Stream consumer(opened);
  for (unsigned char value = 1; value < 40; ++value) {
    const auto slot = upload_of(*upload, std::make_shared<Source>(*upload, value));
    EXPECT_THAT(read(opened, consumer, *slot), Each(value));
  }
  EXPECT_EQ(upload->slot_count(), 3U);
  EXPECT_EQ(upload->copied_bytes(), 39 * kBytes);
}

TEST_F(BatchUploadTest, ASlotIsNotWrittenBeforeItsConsumersWorkIsDone) {
  feedrace_stub_set_delay_us(300);
  const auto opened = device();
  const auto upload = BatchUpload::create(opened, 1, 1);  // Each batch is the same slot.
  Stream consumer(opened);
  HostMemory results(40 * 20 * 1024);
  const PinnedRange pinned(opened, results.data(), results.size_bytes());
  for (unsigned char value = 0; value < 40; ++value) {
    const auto slot = upload_of(*upload, std::make_shared<Source>(*upload, value));
    slot->hand_over(consumer.handle());
    consumer.copy_to_host(results.data() + value * kBytes, slot->address(), kBytes);
    // Dropped here, long before the copy has run.
  }
  Event done(opened);
  done.record(consumer.handle());
  done.wait();
  for (unsigned value = 0; value < 40; ++value) {
    const std::byte* begin = results.data() + value * kBytes;
    EXPECT_TRUE(std::all_of(begin, begin + kBytes, [&](std::byte b) {
      return b == std::byte(value);
    })) << value;
  }
  upload->finish();
}

TEST_F(BatchUploadTest, SourcesAreKeptUntilTheyAreCopiedAndNoLonger) {
  feedrace_stub_set_delay_us(1000);
  const auto upload = BatchUpload::create(device(), 2, 4);
  auto source = std::make_shared<Source>(*upload, 1);
  const std::weak_ptr<Source> watched = source;
  const auto slot = upload_of(*upload, source);
  source.reset();
  EXPECT_FALSE(watched.expired());
  slot->wait();
  upload->finish();
  EXPECT_TRUE(watched.expired());
}

TEST_F(BatchUploadTest, NothingIsAllocatedInSteadyState) {
  const auto opened = device();
  const auto upload = BatchUpload::create(opened, 2, 4);
  const auto source = std::make_shared<Source>(*upload, 7);
  Stream consumer(opened);
  const auto round = [&] {
    const auto slot = upload_of(*upload, source);
    slot->hand_over(consumer.handle());
    slot->wait();
  };
  // As late as a loaded machine may make it: all events are made that there will ever be.
  feedrace_stub_set_delay_us(1000);
  for (int i = 0; i < 100; ++i) upload_of(*upload, source)->hand_over(consumer.handle());
  feedrace_stub_set_delay_us(0);
  const auto calls = [] {
    std::uint64_t sum = 0;
    for (const char* call : {"cuMemAlloc_v2", "cuMemFree_v2", "cuEventCreate",
                             "cuStreamSynchronize", "cuMemHostRegister_v2"}) {
      sum += feedrace_stub_calls(call);
    }
    return sum;
  };
  const std::uint64_t before = calls();
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(calls(), before);
}

TEST_F(BatchUploadTest, WaitsForAConsumerThatKeepsAllAndSaysSo) {
  const auto upload = BatchUpload::create(device(), 1, 2);
  const auto source = std::make_shared<Source>(*upload, 7);
  auto first = upload_of(*upload, source);
  const auto second = upload_of(*upload, source);
  EXPECT_FALSE(upload->is_starving());
  std::promise<std::shared_ptr<BatchUpload::Slot>> third;
  std::jthread waiting([&](const std::stop_token& stop) {
    third.set_value(upload->acquire(kBytes, stop));
    EXPECT_EQ(upload->acquire(kBytes, stop), nullptr);  // Until it is stopped.
  });
  while (!upload->is_starving()) std::this_thread::yield();
  first.reset();
  const auto got = third.get_future().get();
  EXPECT_NE(got, nullptr);
  waiting.request_stop();
  waiting.join();
  EXPECT_FALSE(upload->is_starving());
  EXPECT_EQ(upload->slot_count(), 2U);
}

TEST_F(BatchUploadTest, SlotsGrowWithTheirBatches) {
  const auto upload = BatchUpload::create(device(), 1, 1);
  const std::uint64_t small = upload->acquire(kBytes, {})->address();
  EXPECT_EQ(upload->acquire(kBytes / 2, {})->address(), small);
  const auto large = upload->acquire(std::size_t{1} << 20, {});
  EXPECT_TRUE(feedrace_stub_is_device_memory(reinterpret_cast<const void*>(large->address()),
                                             std::size_t{1} << 20));
  EXPECT_EQ(upload->slot_count(), 1U);
}

TEST_F(BatchUploadTest, ADeviceTooFullForASlotThatGrowsKeepsTheOthers) {
  feedrace_stub_set_memory(400'000);
  const auto upload = BatchUpload::create(device(), 2, 2);
  const auto kept = upload->acquire(kBytes, {});
  upload->acquire(kBytes, {}).reset();
  std::stop_source stop;
  std::jthread stopper([&] {
    while (!upload->is_starving()) std::this_thread::yield();
    stop.request_stop();
  });
  EXPECT_EQ(upload->acquire(500'000, stop.get_token()), nullptr);
  EXPECT_EQ(upload->limit(), 1U);
  EXPECT_THAT(upload->shrunk(), HasSubstr("memory for 1 batches only"));
}

TEST_F(BatchUploadTest, AFullDeviceHasToDoWithTheSlotsThatThereAre) {
  feedrace_stub_set_memory(200'000);  // One slot and its 64 KiB of alignment.
  const auto opened = device();
  const auto upload = BatchUpload::create(opened, 3, 8);
  const auto source = std::make_shared<Source>(*upload, 9);
  Stream consumer(opened);
  for (int i = 0; i < 5; ++i) {
    const auto slot = upload_of(*upload, source);
    EXPECT_THAT(read(opened, consumer, *slot), Each(9));
  }
  EXPECT_LE(upload->slot_count(), 2U);
}

TEST_F(BatchUploadTest, BatchesOutliveTheUpload) {
  const auto opened = device();
  Stream consumer(opened);
  auto upload = BatchUpload::create(opened, 2, 4);
  const auto slot = upload_of(*upload, std::make_shared<Source>(*upload, 5));
  upload.reset();
  EXPECT_THAT(read(opened, consumer, *slot), Each(5));
}

TEST_F(BatchUploadTest, EveryCallMayFailAndNothingIsLost) {
  for (const char* call :
       {"cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuEventCreate", "cuEventQuery",
        "cuStreamWaitEvent", "cuCtxPushCurrent_v2"}) {
    for (int nth = 1; nth <= 12; ++nth) {
      const auto opened = device();
      Stream consumer(opened);
      const auto upload = BatchUpload::create(opened, 2, 4);
      const auto source = std::make_shared<Source>(*upload, 3);
      feedrace_stub_fail(call, nth, 700);
      int failures = 0;
      for (int i = 0; i < 4; ++i) {
        try {
          const auto slot = upload_of(*upload, source);
          slot->hand_over(consumer.handle());
        } catch (const Error& error) {
          ++failures;
          EXPECT_THAT(error.what(), HasSubstr("error 700"));
        }
      }
      EXPECT_LE(failures, 1) << call;
      feedrace_stub_reset();
    }
  }
}

}  // namespace
}  // namespace feedrace::cuda
