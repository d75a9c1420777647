// SPDX-License-Identifier: Apache-2.0
// Loaders whose pictures a GPU decodes, on the stub libraries, beside the same ones on the host.
// The stub of nvJPEG gives the host's pixels, so batches are equal to the last bit.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/decode/test_pictures.h"
#include "feedrace/pipeline/test_device.h"

namespace feedrace::pipeline {
namespace {

using decode::testing::JpegOptions;
using decode::testing::make_pixels;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string text_of(const decode::testing::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Pictures of each kind: those that the device decodes, those that only the host does.
std::string write_mixed_folder(const testing::TempDir& dir) {
  auto write = [&, i = 0](const decode::testing::Bytes& bytes) mutable {
    dir.write(fmt::format("mixed/c{}/{:03}.jpg", i % kTestClasses, i), text_of(bytes));
    ++i;
  };
  JpegOptions progressive;
  progressive.progressive = true;
  JpegOptions arithmetic;
  arithmetic.arithmetic = true;
  JpegOptions gray;
  gray.stored_as = JCS_GRAYSCALE;
  gray.luma_sampling = {1, 1};
  JpegOptions four;
  four.stored_as = JCS_CMYK;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const auto side = static_cast<std::uint32_t>(40 + seed);
    write(decode::testing::make_jpeg(make_pixels(side, 50, 3, seed)));
    write(decode::testing::make_jpeg(make_pixels(side, 51, 3, seed), progressive));
    write(decode::testing::make_jpeg(make_pixels(side, 52, 1, seed), gray));
    write(decode::testing::make_png(make_pixels(side, 53, 3, seed)));
    write(decode::testing::make_jpeg(make_pixels(side, 54, 4, seed), four));
    write(decode::testing::make_jpeg(make_pixels(side, 55, 3, seed), arithmetic));
  }
  return dir / "mixed";
}

TEST_F(DeviceLoader, DecodesOnTheDeviceByItsEngineAndItsCores) {
  LoaderOptions wanted = options();
  wanted.decode_device = "cuda";
  feedrace_stub_set_delay_us(200);
  Loader loader(wanted);
  EXPECT_EQ(loader.plan().decode_device, "cuda:0");
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  const Stats stats = loader.stats();
  ASSERT_TRUE(stats.device);
  EXPECT_EQ(stats.device->hardware_decoded + stats.device->software_decoded, 48U);
  EXPECT_GT(stats.device->hardware_decoded, stats.device->software_decoded);
  EXPECT_GT(stats.device->software_decoded, 0U);
  EXPECT_EQ(stats.device->host_decoded, 0U);
  // Nothing but labels is copied.
  EXPECT_LT(stats.device->copied_bytes, 2'000U);
  EXPECT_THAT(stats.fallbacks, IsEmpty());
}

TEST_F(DeviceLoader, WithoutTheEngineOnlyTheCropIsDecoded) {
  LoaderOptions wanted = options();
  wanted.hardware_share = 0;
  Loader loader(wanted);
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  EXPECT_EQ(loader.stats().device->software_decoded, 48U);
}

TEST_F(DeviceLoader, WhatTheDeviceRefusesIsDecodedOnTheHostAndCounted) {
  LoaderOptions wanted = options();
  wanted.sources = {write_mixed_folder(dir_)};
  wanted.batch_size = 7;
  wanted.last_batch = LastBatch::kPartial;
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    wanted.pipeline.dtype = dtype;
    Loader loader(wanted);
    EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
    const DeviceStats stats = *loader.stats().device;
    EXPECT_EQ(stats.hardware_decoded + stats.software_decoded, 18U);
    EXPECT_EQ(stats.host_decoded, 18U);
  }
}

TEST_F(DeviceLoader, OtherPipelinesGiveTheBatchesOfTheHostToo) {
  LoaderOptions wanted = options();
  wanted.pipeline = Pipeline::recipe("imagenet-val");
  wanted.pipeline.steps = {Resize{Resize::By::kShorterSide, {}, 32}, CenterCrop{{40, 28}},
                           Flip{Number::constant(1)}};
  wanted.pipeline.layout = Layout::kHwc;
  Loader validation(wanted);
  EXPECT_EQ(load_device_epoch(validation), on_host(wanted));
  EXPECT_EQ(validation.stats().device->host_decoded, 0U);
  wanted.pipeline = Pipeline{};  // No resize: a window of the picture, not normalised.
  wanted.pipeline.steps = {RandomCrop{{17, 23}}};
  wanted.pipeline.dtype = DType::kUint8;
  Loader window(wanted);
  EXPECT_EQ(load_device_epoch(window), on_host(wanted));
  EXPECT_EQ(window.stats().device->host_decoded, 0U);
}

TEST_F(DeviceLoader, TurnedPicturesAreTheHostsWhereTheyAreToBeUpright) {
  for (std::uint8_t turn = 1; turn <= 8; ++turn) {
    const auto jpeg = decode::testing::make_jpeg(make_pixels(40, 30, 3, turn));
    dir_.write(fmt::format("turned/c0/{}.jpg", turn),
               text_of(decode::testing::with_orientation(jpeg, turn)));
  }
  LoaderOptions wanted = options();
  wanted.sources = {dir_ / "turned"};
  wanted.pipeline.orientation = Orientation::kUpright;
  Loader loader(wanted);
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  EXPECT_EQ(loader.stats().device->host_decoded, 7U);
}

TEST_F(DeviceLoader, BadPicturesFollowThePolicy) {
  for (int i = 0; i < 48; i += 5) {
    std::string jpeg = test_jpeg(i);
    if (i % 2 == 0) jpeg.resize(jpeg.size() / 8);  // Cut in its header or soon behind it.
    if (i % 2 == 1) jpeg.resize(jpeg.size() - 40);
    if (i % 3 == 0) jpeg = "no picture";
    dir_.write(fmt::format("folder/c{}/{}.jpg", i % kTestClasses, test_key(i)), jpeg);
  }
  for (const OnError policy : {OnError::kReplace, OnError::kZero}) {
    LoaderOptions wanted = options();
    wanted.on_error = policy;
    Loader loader(wanted);
    EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
    wanted.device = "cpu";
    Loader on_cpu(wanted);
    load_epoch(on_cpu);
    EXPECT_EQ(loader.stats().bad_samples, on_cpu.stats().bad_samples);
    EXPECT_GT(loader.stats().bad_samples, 0U);
    EXPECT_EQ(loader.stats().flagged_samples, on_cpu.stats().flagged_samples);
  }
  LoaderOptions wanted = options();
  wanted.on_error = OnError::kRaise;
  Loader loader(wanted);
  try {
    while (loader.next()) {
    }
    FAIL() << "bad pictures, and nothing was said";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_THAT(error.what(), HasSubstr(".jpg"));
  }
}

TEST_F(DeviceLoader, PicturesOfDifferentSizesLieInOneMemoryWithLabelsBehindThem) {
  feedrace_stub_set_delay_us(300);
  LoaderOptions wanted = options();
  wanted.pipeline.steps = {Flip{Number::coin_flip()}};
  wanted.last_batch = LastBatch::kPartial;
  Loader loader(wanted);
  EXPECT_THAT(loader.plan().decode_device_reason, HasSubstr("different sizes"));
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  loader.set_epoch(0);
  const auto batch = loader.next();
  ASSERT_THAT(batch->image_list, SizeIs(8));
  for (std::size_t i = 0; i + 1 < 8; ++i) {
    const auto* begin = static_cast<const std::byte*>(batch->image_list[i].data);
    EXPECT_EQ(begin + batch->image_list[i].size_bytes(), batch->image_list[i + 1].data);
    EXPECT_EQ(batch->image_list[i].device, 0);
  }
  EXPECT_GT(batch->labels.data, batch->image_list[7].data);
  EXPECT_TRUE(feedrace_stub_is_device_memory(batch->labels.data, batch->labels.size_bytes()));
}

TEST_F(DeviceLoader, SaysWhyTheHostDecodesAndRefusesWhatIsAskedForInVain) {
  const auto refusal = [](const LoaderOptions& wanted) -> std::string {
    try {
      const Loader loader(wanted);
      return "none; " + loader.plan().decode_device + ": " + loader.plan().decode_device_reason;
    } catch (const Error& error) {
      return error.what();
    }
  };
  LoaderOptions wanted = options();
  wanted.pipeline.steps.emplace_back(Grayscale{});
  EXPECT_THAT(refusal(wanted),
              AllOf(HasSubstr("none; cpu: not on the GPU"), HasSubstr("grayscale")));
  wanted.decode_device = "cuda";
  EXPECT_THAT(refusal(wanted),
              AllOf(HasSubstr("decode_device \"cuda\" can't be had"), HasSubstr("grayscale")));
  wanted = options();
  wanted.pipeline.erasings.emplace_back();
  EXPECT_THAT(refusal(wanted), HasSubstr("random_erasing"));
  wanted = options();
  wanted.decode_device = "cpu";
  EXPECT_EQ(refusal(wanted), "none; cpu: ");
  wanted.decode_device = "gpu";
  EXPECT_THAT(refusal(wanted), HasSubstr("it must be \"auto\", \"cpu\" or \"cuda\""));
  wanted = options();
  wanted.device = "cpu";
  wanted.decode_device = "cuda";
  EXPECT_THAT(refusal(wanted), HasSubstr("delivered to the host's memory"));
  for (const double share : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    wanted = options();
    wanted.hardware_share = share;
    EXPECT_THAT(refusal(wanted), HasSubstr("it must be from 0 to 1"));
  }
}

TEST_F(DeviceLoader, WithoutNvjpegTheHostDecodes) {
  feedrace_stub_fail("nvjpegCreateExV2", 0, 1);
  LoaderOptions wanted = options();
  Loader loader(wanted);
  EXPECT_EQ(loader.plan().device, "cuda:0");
  EXPECT_EQ(loader.plan().decode_device, "cpu");
  EXPECT_THAT(loader.plan().decode_device_reason, HasSubstr("nvjpegCreate"));
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  EXPECT_EQ(loader.stats().device->host_decoded, 48U);
  wanted.decode_device = "cuda";
  EXPECT_THROW(Loader{wanted}, Error);
}

TEST_F(DeviceLoader, WithADriverThatIsTooOldForTheKernelsTheHostDecodes) {
  feedrace_stub_set_driver_version(12040);
  LoaderOptions wanted = options();
  Loader loader(wanted);
  EXPECT_EQ(loader.plan().decode_device, "cpu");
  EXPECT_THAT(loader.plan().decode_device_reason, HasSubstr("12.4"));
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
}

TEST_F(DeviceLoader, AFullDeviceLeavesThePicturesToTheHostAndSaysSo) {
  LoaderOptions wanted = options();
  Loader loader(wanted);
  EXPECT_EQ(loader.plan().decode_device, "cuda:0");
  // Of the first batch's pictures, or of nvJPEG.
  feedrace_stub_fail("cuMemAlloc_v2", 2, 2);
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  const Stats stats = loader.stats();
  EXPECT_GE(stats.device->host_decoded, 8U);
  ASSERT_THAT(stats.fallbacks, SizeIs(1));
  EXPECT_THAT(stats.fallbacks[0].sentence,
              AllOf(HasSubstr("decoded on the CPU from now on"), HasSubstr("free memory")));
}

TEST_F(DeviceLoader, BatchesComeBeforePicturesWhereMemoryIsShort) {
  const std::vector<Seen> expected = on_host(options());
  // In steps of less than what any of them takes: right batches, or an error with the sizes.
  int decoded_there = 0;
  int delivered = 0;
  for (std::size_t bytes = 100'000; bytes < 60'000'000; bytes += bytes / 5) {
    feedrace_stub_reset();
    feedrace_stub_set_memory(bytes);
    try {
      Loader loader(options());
      EXPECT_EQ(load_device_epoch(loader), expected) << bytes;
      ++delivered;
      if (loader.stats().device->host_decoded < 48) ++decoded_there;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
      EXPECT_EQ(delivered, 0) << bytes << ": " << error.what();
    }
  }
  EXPECT_GT(decoded_there, 0);
  EXPECT_GT(delivered, decoded_there);
}

TEST_F(DeviceLoader, PicturesTooLargeForTheFirstEngineGetALargerOne) {
  for (int i = 0; i < 8; ++i) {
    dir_.write(fmt::format("large/c0/{}.jpg", i), testing::make_jpeg(1400, 20, 1));
  }
  LoaderOptions wanted = options();
  wanted.sources = {dir_ / "large"};
  Loader loader(wanted);
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  EXPECT_GT(loader.stats().device->hardware_decoded, 0U);
}

TEST_F(DeviceLoader, AConsumerThatKeepsAllBatchesIsTold) {
  LoaderOptions wanted = options();
  // Room for the pictures and two batches of 8 x 24 x 24 x 3 halves.
  Loader loader(wanted);
  std::vector<Batch> kept;
  kept.push_back(*loader.next());
  kept.push_back(*loader.next());
  feedrace_stub_set_memory(1);  // From now on nothing more.
  try {
    while (const auto batch = loader.next()) kept.push_back(*batch);
    FAIL() << "six batches where there is room for four";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the caller holds"), HasSubstr("on the GPU"),
                                    HasSubstr("drop batches")));
  }
  kept.clear();
  EXPECT_TRUE(loader.next());  // And goes on.
}

TEST_F(DeviceLoader, EndsInTheMidstOfWorkAndByCancel) {
  feedrace_stub_set_delay_us(2000);
  for (int taken = 0; taken < 4; ++taken) {
    Loader loader(options());
    for (int i = 0; i < taken; ++i) loader.next();
  }
  Loader loader(options());
  std::jthread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    loader.cancel();
  });
  try {
    while (true) loader.next();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
}

class DeviceDecodeFailure : public DeviceLoader,
                            public ::testing::WithParamInterface<const char*> {};

/// Whatever fails, and whenever: the batches of the host, or one error; no hang, nothing lost.
TEST_P(DeviceDecodeFailure, IsAnErrorOrIsMadeUpFor) {
  const std::vector<Seen> expected = on_host(options());
  {
    Loader loader(options());
    EXPECT_EQ(load_device_epoch(loader), expected);
    EXPECT_GT(feedrace_stub_calls(GetParam()), 0U) << "a name of nothing that is called";
  }
  for (const int nth : {1, 2, 3, 5, 8, 13, 30}) {
    for (const int code : {2, 700}) {
      feedrace_stub_fail(GetParam(), nth, code);
      try {
        Loader loader(options());
        EXPECT_EQ(load_device_epoch(loader), expected) << GetParam() << " " << nth << " " << code;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("; ")) << GetParam() << " " << nth << " " << code;
      }
      feedrace_stub_reset();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, DeviceDecodeFailure,
    ::testing::Values("cuMemAlloc_v2", "cuMemHostRegister_v2", "cuStreamCreateWithPriority",
                      "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventSynchronize",
                      "cuStreamWaitEvent", "cuMemcpyHtoDAsync_v2", "cuLaunchKernel",
                      "cuModuleLoadData", "nvjpegCreateExV2", "nvjpegDecodeBatchedEx",
                      "nvjpegDecodeBatchedPreAllocate", "nvjpegDecodeJpegHost",
                      "nvjpegDecodeJpegTransferToDevice", "nvjpegDecodeJpegDevice",
                      "nvjpegJpegStreamParse", "nvjpegJpegStreamParseHeader"));

}  // namespace
}  // namespace feedrace::pipeline
