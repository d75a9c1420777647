// SPDX-License-Identifier: Apache-2.0
// nvJPEG's and the driver's calls fail, one after the other.
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "feedrace/cuda/test_decoder.h"

namespace feedrace::cuda {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST_F(DecoderTest, ABatchThatFailsIsDecodedPictureByPicture) {
  feedrace_stub_set_delay_us(100);
  for (const int code : {3, 4, 6, 8, 10}) {
    const auto opened = device();
    Decoder decoder(opened, options_of(0.65));
    Batch batch(opened, all_kinds());
    feedrace_stub_fail("nvjpegDecodeBatchedEx", 1, code);
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK) << decoder.error.message;
    EXPECT_THAT(batch.engines(), Each(kSoftware));
    batch.expect_pixels();
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
    EXPECT_GT(batch.count(kHardware), 0U);
    batch.expect_pixels();
  }
}

TEST_F(DecoderTest, MemoryThatRunsOutIsSaidWithItsSizes) {
  feedrace_stub_set_memory(1 << 20);
  const auto opened = device();
  Decoder refused(opened, options_of(0.65));
  EXPECT_EQ(refused.status, FEEDRACE_CUDA_NO_MEMORY);
  EXPECT_THAT(refused.error.message,
              AllOf(HasSubstr("nvjpegDecodeBatchedPreAllocate"), HasSubstr("status 5"),
                    HasSubstr("14745600 bytes more were refused"), HasSubstr("batch_size")));

  feedrace_stub_set_memory(std::size_t{1} << 30U);
  Decoder decoder(opened, options_of(0));
  Batch batch(opened, {baseline()});
  feedrace_stub_fail("cuMemAlloc_v2", 0, 2);
  EXPECT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_NO_MEMORY);
  EXPECT_THAT(decoder.error.message,
              AllOf(HasSubstr("1048576 bytes more were refused with error 2"),
                    HasSubstr("lower prefetch_factor")));
  EXPECT_THAT(batch.statuses(), Each(FEEDRACE_CUDA_NO_MEMORY));
}

TEST_F(DecoderTest, WithoutAnEngineTheSoftwareDecodesAll) {
  for (const int code : {6, 7, 8, 9}) {
    feedrace_stub_reset();
    feedrace_stub_fail("nvjpegCreateExV2", 1, code);
    const auto opened = device();
    Decoder decoder(opened, options_of(0.65));
    ASSERT_EQ(decoder.status, FEEDRACE_CUDA_OK) << decoder.error.message;
    Batch batch(opened, all_kinds());
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
    EXPECT_THAT(batch.engines(), Each(kSoftware));
    batch.expect_pixels();
  }
}

TEST_F(DecoderTest, WhatABatchThatFailedStillWritesComesBeforeThePicturesAlone) {
  const auto opened = device();
  feedrace_cuda_decoder_options options = options_of(1);
  options.bitstream_on_device = 1;
  Decoder decoder(opened, options);
  Batch batch(opened, {baseline(64, 48, 1), baseline(64, 48, 2)});
  batch.put_on_device();
  // The engine sees another picture, then none.
  const Bytes other = baseline(64, 48, 3);
  const DeviceMemory copy(opened, other.size());
  batch.stream.copy_to_device(copy.address(), other.data(), other.size());
  batch.jpegs[0].device_bytes = copy.address();
  std::memset(reinterpret_cast<void*>(batch.jpegs[1].device_bytes), 0, batch.jpegs[1].size_bytes);
  batch.wait();
  feedrace_stub_set_delay_us(5000);
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  EXPECT_THAT(batch.engines(), Each(kSoftware));
  batch.wait();
  decoder.close();
  batch.expect_pixels();
}

TEST_F(DecoderTest, ACallThatFailedIsNotAtWorkOnItsOutputs) {
  const auto opened = device();
  Decoder decoder(opened, options_of(0.65));
  Batch batch(opened, all_kinds());
  feedrace_stub_set_delay_us(5000);
  feedrace_stub_fail("cuStreamWaitEvent", 1, 700);
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_LOST);
  for (std::size_t i = 0; i < batch.jpegs.size(); ++i) {
    const feedrace_cuda_picture& output = batch.jpegs[i].output;
    std::memset(reinterpret_cast<void*>(output.address), 7, batch.outputs[i].size_bytes());
  }
  batch.wait();
  decoder.close();
  for (std::size_t i = 0; i < batch.jpegs.size(); ++i) EXPECT_THAT(batch.read(i), Each(7));
}

struct InjectedCall {
  const char* name;
  int code;

  /// For the names of the tests, which addresses would make others in every run.
  friend void PrintTo(const InjectedCall& call, std::ostream* out) {
    *out << call.name << " gives " << call.code;
  }
};

class DecoderFailureTest : public DecoderTest,
                           public ::testing::WithParamInterface<InjectedCall> {};

/// Whatever fails, and at whichever call: a status with a remedy or right pixels, and nothing left.
TEST_P(DecoderFailureTest, IsAStatusOrNothingIsLost) {
  const auto [name, code] = GetParam();
  const auto opened = device();
  for (const std::uint32_t on_device : {0U, 1U}) {
    Batch batch(opened, all_kinds());
    batch.want(0, {3, 5, 20, 17});
    batch.put_on_device();
    for (int nth = 1;; ++nth) {
      ASSERT_LT(nth, 500);
      feedrace_stub_reset();
      feedrace_stub_set_delay_us(20);
      feedrace_stub_fail(name, nth, code);
      feedrace_cuda_decoder_options options = options_of(0.65);
      options.bitstream_on_device = on_device;
      options.max_batch = 8;
      Decoder decoder(opened, options);
      int status = decoder.status;
      if (status == FEEDRACE_CUDA_OK) {
        status = decoder.decode(batch.jpegs, batch.stream);
        if (status == FEEDRACE_CUDA_OK) {
          EXPECT_THAT(batch.statuses(), Each(AnyOf(FEEDRACE_CUDA_OK, FEEDRACE_CUDA_BAD_DATA,
                                                   FEEDRACE_CUDA_UNSUPPORTED)));
        } else {
          EXPECT_THAT(batch.statuses(), Each(status));
        }
      }
      const bool has_fired = feedrace_stub_calls(name) >= static_cast<std::uint64_t>(nth);
      feedrace_stub_reset();
      if (status != FEEDRACE_CUDA_OK) {
        EXPECT_THAT(decoder.error.message, AllOf(HasSubstr(std::to_string(code)), HasSubstr("; ")))
            << name << " " << nth;
      } else {
        batch.expect_pixels();
      }
      if (!has_fired) {
        EXPECT_GT(nth, 1) << name << " was never called";
        EXPECT_THAT(batch.statuses(), Each(FEEDRACE_CUDA_OK));
        break;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    NvJpeg, DecoderFailureTest,
    ::testing::Values(
        InjectedCall{"nvjpegCreateExV2", 5}, InjectedCall{"nvjpegCreateExV2", 2},
        InjectedCall{"nvjpegCreateExV2", 7}, InjectedCall{"nvjpegSetDeviceMemoryPadding", 2},
        InjectedCall{"nvjpegSetPinnedMemoryPadding", 2},
        InjectedCall{"nvjpegGetHardwareDecoderInfo", 6}, InjectedCall{"nvjpegJpegStateCreate", 5},
        InjectedCall{"nvjpegJpegStreamCreate", 5}, InjectedCall{"nvjpegJpegStreamParse", 3},
        InjectedCall{"nvjpegJpegStreamParse", 10}, InjectedCall{"nvjpegJpegStreamParseHeader", 2},
        InjectedCall{"nvjpegJpegStreamParseHeader", 5},
        InjectedCall{"nvjpegJpegStreamGetFrameDimensions", 8},
        InjectedCall{"nvjpegJpegStreamGetComponentsNum", 1},
        InjectedCall{"nvjpegJpegStreamGetJpegEncoding", 2},
        InjectedCall{"nvjpegJpegStreamGetSamplePrecision", 2},
        InjectedCall{"nvjpegDecodeParamsCreate", 5},
        InjectedCall{"nvjpegDecodeParamsSetOutputFormat", 2},
        InjectedCall{"nvjpegDecodeParamsSetROI", 2}, InjectedCall{"nvjpegDecoderCreate", 9},
        InjectedCall{"nvjpegDecoderStateCreate", 5}, InjectedCall{"nvjpegDecoderJpegSupported", 2},
        InjectedCall{"nvjpegBufferPinnedCreateV2", 5},
        InjectedCall{"nvjpegBufferDeviceCreateV2", 5},
        InjectedCall{"nvjpegStateAttachPinnedBuffer", 2},
        InjectedCall{"nvjpegStateAttachDeviceBuffer", 2}, InjectedCall{"nvjpegDecodeJpegHost", 3},
        InjectedCall{"nvjpegDecodeJpegHost", 2},
        InjectedCall{"nvjpegDecodeJpegTransferToDevice", 6},
        InjectedCall{"nvjpegDecodeJpegTransferToDevice", 5},
        InjectedCall{"nvjpegDecodeJpegDevice", 6}, InjectedCall{"nvjpegDecodeJpegDevice", 8},
        InjectedCall{"nvjpegDecodeBatchedInitialize", 6},
        InjectedCall{"nvjpegDecodeBatchedPreAllocate", 5},
        InjectedCall{"nvjpegDecodeBatchedSupportedEx", 8}, InjectedCall{"nvjpegDecodeBatchedEx", 4},
        InjectedCall{"nvjpegDecodeBatchedEx", 5}, InjectedCall{"nvjpegDecodeBatchedEx", 2}));

INSTANTIATE_TEST_SUITE_P(Driver, DecoderFailureTest,
                         ::testing::Values(InjectedCall{"cuCtxPushCurrent_v2", 700},
                                           InjectedCall{"cuMemAlloc_v2", 2},
                                           InjectedCall{"cuMemHostRegister_v2", 2},
                                           InjectedCall{"cuStreamCreateWithPriority", 2},
                                           InjectedCall{"cuEventCreate", 2},
                                           InjectedCall{"cuEventRecord", 700},
                                           InjectedCall{"cuEventSynchronize", 719},
                                           InjectedCall{"cuStreamWaitEvent", 700},
                                           InjectedCall{"cuLaunchHostFunc", 719}));

TEST_F(DecoderTest, ALostDeviceIsSaidSo) {
  const auto opened = device();
  Decoder decoder(opened, options_of(0));
  Batch batch(opened, {baseline()});
  feedrace_stub_fail("nvjpegDecodeJpegDevice", 1, 6);
  feedrace_stub_fail("cuEventRecord", 1, 700);
  EXPECT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_LOST);
  EXPECT_THAT(decoder.error.message, AllOf(HasSubstr("700"), HasSubstr("start the process again")));
  EXPECT_THAT(batch.statuses(), Each(FEEDRACE_CUDA_LOST));
}

}  // namespace
}  // namespace feedrace::cuda
