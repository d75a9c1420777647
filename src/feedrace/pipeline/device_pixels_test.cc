// SPDX-License-Identifier: Apache-2.0
// Loaders of decoded pictures whose pixels come to a GPU, on the stub libraries, beside the same
// ones on the host. The stubs' pass is the host's arithmetic, so batches are equal to the last bit.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/decode/test_pictures.h"
#include "feedrace/pipeline/test_device.h"

namespace feedrace::pipeline {
namespace {

using decode::testing::Bytes;
using decode::testing::make_npy;
using decode::testing::make_pixels;
using decode::testing::squeeze_lz4;
using decode::testing::squeeze_zstd;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::uint32_t kWidthPx = 40;
constexpr std::uint32_t kHeightPx = 30;
constexpr std::uint64_t kPictureBytes = std::uint64_t{3} * kWidthPx * kHeightPx;
constexpr std::uint64_t kCount = 48;

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Pictures of one size in all forms that there are of decoded ones.
Bytes decoded_picture(std::uint64_t i) {
  const Bytes array = make_npy(make_pixels(kWidthPx, kHeightPx, i % 5 == 4 ? 1 : 3, i));
  if (i % 3 == 1) return squeeze_lz4(array);
  return i % 3 == 2 ? squeeze_zstd(array) : array;
}

std::string name_of(std::uint64_t i) {
  constexpr std::string_view kEnds[] = {"npy", "npy.lz4", "npy.zst"};
  return fmt::format("{:02}.{}", i, kEnds[i % 3]);
}

class DecodedOnDevice : public DeviceLoader {
 protected:
  LoaderOptions options() const {
    LoaderOptions options = DeviceLoader::options();
    options.sources = {decoded_};
    return options;
  }
  void write(std::uint64_t i, const std::string& content) const {
    dir_.write(fmt::format("decoded/c{}/{}", i % kTestClasses, name_of(i)), content);
  }
  std::string write_all() const {
    for (std::uint64_t i = 0; i < kCount; ++i) write(i, text_of(decoded_picture(i)));
    return dir_ / "decoded";
  }

  const std::string decoded_ = write_all();
};

TEST_F(DecodedOnDevice, PixelsGoThroughThePassOfTheDevice) {
  feedrace_stub_set_delay_us(200);
  for (const char* decode_device : {"auto", "cuda"}) {
    LoaderOptions wanted = options();
    wanted.decode_device = decode_device;
    Loader loader(wanted);
    EXPECT_EQ(loader.plan().decode_device, "cuda:0");
    EXPECT_THAT(loader.plan().decode_device_reason, HasSubstr("decoded already (.npy)"));
    EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
    EXPECT_EQ(load_device_epoch(loader).size(), 6U);  // In memory that is used again.
    const Stats stats = loader.stats();
    EXPECT_EQ(stats.device->already_decoded, 2 * kCount);
    EXPECT_EQ(stats.device->host_decoded, 0U);
    EXPECT_EQ(stats.device->hardware_decoded + stats.device->software_decoded, 0U);
    EXPECT_THAT(stats.fallbacks, IsEmpty());
  }
  EXPECT_EQ(feedrace_stub_calls("nvjpegCreateExV2"), 0U);
}

TEST_F(DecodedOnDevice, WhatIsCopiedIsTheBoxAndIsCounted) {
  LoaderOptions wanted = options();
  wanted.pipeline.steps = {Resize{Resize::By::kSize, {24, 24}, 0, 0}};
  wanted.pipeline.layout = Layout::kHwc;
  Loader whole(wanted);
  EXPECT_EQ(load_device_epoch(whole), on_host(wanted));
  // Of whole batches, those that are made ahead too.
  constexpr std::uint64_t kOfBatch = 8 * (kPictureBytes + sizeof(std::int64_t));
  EXPECT_GE(whole.stats().device->copied_bytes, kCount / 8 * kOfBatch);
  EXPECT_EQ(whole.stats().device->copied_bytes % kOfBatch, 0U);
  wanted.pipeline.steps = {RandomCrop{{17, 23}}, Flip{Number::coin_flip()}};
  Loader window(wanted);
  EXPECT_EQ(load_device_epoch(window), on_host(wanted));
  EXPECT_EQ(window.stats().device->already_decoded, kCount);
}

TEST_F(DecodedOnDevice, NeedsNoNvjpeg) {
  feedrace_stub_fail("nvjpegCreateExV2", 0, 1);
  Loader loader(options());
  EXPECT_EQ(load_device_epoch(loader), on_host(options()));
  EXPECT_EQ(loader.stats().device->already_decoded, kCount);
}

TEST_F(DecodedOnDevice, AllKindsMayLieInOneBatch) {
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const Bytes kinds[] = {decoded_picture(i),
                           decode::testing::make_jpeg(make_pixels(kHeightPx, kWidthPx, 3, i)),
                           decode::testing::make_png(make_pixels(kHeightPx, kWidthPx, 3, i))};
    dir_.write(fmt::format("mixed/c0/{:02}.jpg", i), text_of(kinds[i % 3 == 0 ? i / 3 % 3 : 0]));
  }
  LoaderOptions wanted = options();
  wanted.sources = {dir_ / "mixed"};
  wanted.batch_size = 7;
  wanted.last_batch = LastBatch::kPartial;
  for (const double share : {0.0, 0.65}) {
    wanted.hardware_share = share;
    Loader loader(wanted);
    EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
    const DeviceStats stats = *loader.stats().device;
    EXPECT_EQ(stats.already_decoded, 38U);
    EXPECT_EQ(stats.hardware_decoded + stats.software_decoded, 5U);
    EXPECT_EQ(stats.host_decoded, 5U);
  }
}

TEST_F(DecodedOnDevice, JpegsUnderTheirNamesAreDecodedOnTheHost) {
  for (std::uint64_t i = 0; i < kCount; i += 4) {
    write(i, text_of(decode::testing::make_jpeg(make_pixels(kWidthPx, kHeightPx, 3, i))));
  }
  Loader loader(options());
  EXPECT_EQ(load_device_epoch(loader), on_host(options()));
  EXPECT_EQ(loader.stats().device->host_decoded, kCount / 4);
  EXPECT_EQ(loader.stats().device->already_decoded, kCount - kCount / 4);
}

TEST_F(DecodedOnDevice, OtherPipelinesAreTheHosts) {
  LoaderOptions wanted = options();
  wanted.pipeline.steps.emplace_back(Grayscale{});
  Loader loader(wanted);
  EXPECT_THAT(loader.plan().decode_device_reason, HasSubstr("grayscale"));
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  EXPECT_EQ(loader.stats().device->host_decoded, kCount);
}

/// The first picture of each kind of damage that pictures in this form can have.
std::string damaged(std::uint64_t i) {
  std::string content = text_of(decoded_picture(i));
  if (i % 3 != 0) {  // A frame: cut, or with a byte that is another.
    if (i % 2 == 0) return content.substr(0, content.size() / 3);
    content[content.size() - 6] = static_cast<char>(content[content.size() - 6] ^ 0x55);
    return content;
  }
  switch (i / 3 % 4) {
    case 0:
      return content.substr(0, content.size() - 1);
    case 1:
      return content.substr(0, 40);  // In its header.
    case 2:
      content.replace(content.find("False"), 5, "True ");
      return content;
    default:
      return testing::npy("<f4", "4, 5, 3", std::string(4 * 5 * 3 * 4, 'x'));
  }
}

TEST_F(DecodedOnDevice, BadPicturesFollowThePolicy) {
  for (std::uint64_t i = 0; i < kCount; i += 5) write(i, damaged(i));
  LoaderOptions wanted = options();
  // To the last row, where checksums are compared.
  wanted.pipeline.steps = {Resize{Resize::By::kSize, {24, 24}, 0, 0}};
  for (const OnError policy : {OnError::kReplace, OnError::kZero}) {
    wanted.device = "cuda";
    wanted.on_error = policy;
    Loader loader(wanted);
    EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
    wanted.device = "cpu";
    Loader on_cpu(wanted);
    load_epoch(on_cpu);
    EXPECT_EQ(loader.stats().bad_samples, on_cpu.stats().bad_samples);
    EXPECT_EQ(loader.stats().bad_samples, 10U);
    EXPECT_EQ(loader.stats().device->host_decoded,
              policy == OnError::kReplace ? loader.stats().bad_samples : 0);
  }
}

TEST_F(DecodedOnDevice, ABadPictureIsTheSameErrorAsOnTheHost) {
  for (std::uint64_t i = 0; i < kCount; i += 5) {
    write(i, damaged(i));
    LoaderOptions wanted = options();
    wanted.shuffle = Shuffle::kNone;
    wanted.pipeline.steps = {Resize{Resize::By::kSize, {24, 24}, 0, 0}};
    const auto error_of = [&](const char* device) -> std::string {
      wanted.device = device;
      try {
        Loader loader(wanted);
        while (loader.next()) {
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
        return error.what();
      }
      return "none";
    };
    const std::string on_device = error_of("cuda");
    EXPECT_EQ(on_device, error_of("cpu"));
    EXPECT_THAT(on_device, HasSubstr(name_of(i)));
    write(i, text_of(decoded_picture(i)));
  }
}

TEST_F(DecodedOnDevice, AFullDeviceLeavesThePassToTheHostAndSaysSo) {
  Loader loader(options());
  feedrace_stub_fail("cuMemAlloc_v2", 0, 2);  // What is for batches is there already.
  EXPECT_EQ(load_device_epoch(loader), on_host(options()));
  const Stats stats = loader.stats();
  EXPECT_EQ(stats.device->host_decoded, kCount);
  ASSERT_THAT(stats.fallbacks, Not(IsEmpty()));
  for (const FallbackCount& each : stats.fallbacks) {  // The batch after it may have been begun.
    EXPECT_THAT(each.sentence,
                AllOf(HasSubstr("decoded on the CPU from now on"), HasSubstr("free memory")));
  }
}

TEST_F(DecodedOnDevice, PixelsThatTheMemoryLimitHasNoRoomForAreTheHosts) {
  // Of frames that hold nearly nothing the plan can't know what they unpack to.
  constexpr std::uint32_t kSidePx = 1000;
  decode::testing::Pixels plain = make_pixels(kSidePx, kSidePx, 3, 1);
  std::fill(plain.values.begin(), plain.values.end(), std::uint8_t{90});
  for (int i = 0; i < 32; ++i) {
    dir_.write(fmt::format("plain/c0/{:02}.npy.lz4", i), text_of(squeeze_lz4(make_npy(plain))));
  }
  LoaderOptions wanted = options();
  wanted.sources = {dir_ / "plain"};
  wanted.pipeline.steps = {Resize{Resize::By::kSize, {24, 24}, 0, 0}};
  wanted.memory_limit_bytes = Loader(wanted).plan().memory_bytes + (std::uint64_t{24} << 20);
  Loader loader(wanted);
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  const Stats stats = loader.stats();
  EXPECT_GT(stats.device->host_decoded, 0U);
  EXPECT_GT(stats.device->already_decoded, 0U);
  ASSERT_THAT(stats.fallbacks, SizeIs(1));
  EXPECT_THAT(stats.fallbacks[0].sentence, HasSubstr("memory limit has no room for their pixels"));
  EXPECT_GE(stats.fallbacks[0].count, stats.device->host_decoded);
}

TEST_F(DecodedOnDevice, MemoryThatCanNotBePinnedIsCountedAndServes) {
  feedrace_stub_fail("cuMemHostRegister_v2", 0, 2);
  Loader loader(options());
  EXPECT_EQ(load_device_epoch(loader), on_host(options()));
  EXPECT_EQ(loader.stats().device->already_decoded, kCount);
  const Stats stats = loader.stats();
  ASSERT_THAT(stats.fallbacks, Not(IsEmpty()));
  for (const FallbackCount& each : stats.fallbacks) {
    EXPECT_THAT(each.sentence, HasSubstr("not pinned"));
  }
}

TEST_F(DecodedOnDevice, EndsInTheMidstOfWork) {
  feedrace_stub_set_delay_us(2000);
  for (int taken = 0; taken < 6; ++taken) {
    Loader loader(options());
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(loader.next());
  }
}

TEST_F(DecodedOnDevice, EveryCallMayFailAndNothingIsLost) {
  const std::vector<Seen> expected = on_host(options());
  for (const char* call : {"cuMemAlloc_v2", "cuEventRecord", "cuEventSynchronize",
                           "cuStreamWaitEvent", "cuMemcpyHtoDAsync_v2", "cuLaunchKernel"}) {
    for (const int nth : {1, 3, 8, 13, 30, 60}) {
      for (const int code : {2, 700}) {
        feedrace_stub_fail(call, nth, code);
        try {
          Loader loader(options());
          EXPECT_EQ(load_device_epoch(loader), expected) << call << " " << nth << " " << code;
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("; ")) << call << " " << nth << " " << code;
        }
        feedrace_stub_reset();
      }
    }
  }
}

}  // namespace
}  // namespace feedrace::pipeline
