// SPDX-License-Identifier: Apache-2.0
// Loaders of decoded shards that cuFile reads into a GPU's memory, on the stub libraries, beside
// the same ones on the host.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
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
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint32_t kWidthPx = 90;
constexpr std::uint32_t kHeightPx = 70;
constexpr int kCount = 48;

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string plain_picture(int i) {
  const auto seed = static_cast<std::uint64_t>(i);
  return text_of(make_npy(make_pixels(kWidthPx + i % 3, kHeightPx, 3, seed)));
}

class DecodedByCuFile : public DeviceLoader {
 protected:
  DecodedByCuFile() {
    system_.write("proc/modules", "");
    std::filesystem::create_directories(system_.path() / "run/udev");
    std::filesystem::create_directories(system_.path() / "dev");
  }

  using Member = std::function<std::string(int)>;
  /// Two shards of .npy members, whatever is in them.
  std::string write_decoded(const Member& member, const std::string& field = "npy") const {
    for (int shard = 0; shard < 2; ++shard) {
      std::string tar;
      for (int i = shard * kCount / 2; i < (shard + 1) * kCount / 2; ++i) {
        tar += testing::tar_member(test_key(i) + "." + field, member(i));
        tar += testing::tar_member(test_key(i) + ".cls", std::to_string(i % kTestClasses));
      }
      dir_.write(fmt::format("decoded/{:02}.tar", shard), tar + testing::tar_end());
    }
    return dir_ / "decoded";
  }
  LoaderOptions options(const std::string& source) const {
    LoaderOptions options = DeviceLoader::options();
    options.sources = {source};
    options.backend = "cufile";
    options.system_root = system_.path().string();
    return options;
  }
  std::vector<Seen> on_host(LoaderOptions options) const {
    options.backend = "buffered";
    return DeviceLoader::on_host(options);
  }
  static std::uint64_t bytes_by(const Loader& loader, Path path) {
    return loader.stats().bytes_by_path[static_cast<std::size_t>(path)];
  }
  std::string error_of(LoaderOptions options, const std::string& backend) const {
    options.backend = backend;
    try {
      Loader loader(options);
      while (loader.next()) {
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  const testing::TempDir system_;
};

TEST_F(DecodedByCuFile, RowsGoFromTheDriveThroughThePassOfTheDevice) {
  feedrace_stub_set_delay_us(200);
  const LoaderOptions wanted = options(write_decoded(plain_picture));
  Loader loader(wanted);
  EXPECT_EQ(loader.plan().backend, "cufile");
  EXPECT_EQ(loader.plan().decode_device, "cuda:0");
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  EXPECT_EQ(load_device_epoch(loader).size(), 6U);  // In memory that is used again.
  const Stats stats = loader.stats();
  EXPECT_EQ(stats.device->already_decoded, 2U * kCount);
  EXPECT_EQ(stats.device->host_decoded, 0U);
  // Of all that is copied from the host there are only labels.
  EXPECT_LT(stats.device->copied_bytes, 2'000U);
  EXPECT_GE(bytes_by(loader, Path::kGds), std::uint64_t{2} * kCount * 3 * kWidthPx * kHeightPx);
  EXPECT_EQ(bytes_by(loader, Path::kPageCache), 0U);
  EXPECT_EQ(stats.copies_per_byte(), 0);
  EXPECT_THAT(stats.fallbacks, IsEmpty());
}

TEST_F(DecodedByCuFile, OtherPipelinesGiveTheBatchesOfTheHostToo) {
  LoaderOptions wanted = options(write_decoded(plain_picture));
  wanted.pipeline = Pipeline::recipe("imagenet-val");
  wanted.pipeline.steps = {Resize{Resize::By::kShorterSide, {}, 32}, CenterCrop{{40, 28}},
                           Flip{Number::constant(1)}};
  wanted.pipeline.layout = Layout::kHwc;
  Loader validation(wanted);
  EXPECT_EQ(load_device_epoch(validation), on_host(wanted));
  wanted.pipeline = Pipeline{};
  wanted.pipeline.steps = {RandomCrop{{17, 23}}};
  wanted.pipeline.dtype = DType::kUint8;
  Loader window(wanted);
  EXPECT_EQ(load_device_epoch(window), on_host(wanted));
  EXPECT_EQ(window.stats().device->already_decoded, kCount);
}

TEST_F(DecodedByCuFile, WhatIsNoPlainArrayOfRgbComesBackAndIsCounted) {
  const LoaderOptions wanted = options(write_decoded([](int i) {
    const auto seed = static_cast<std::uint64_t>(i);
    const Bytes array = make_npy(make_pixels(kWidthPx, kHeightPx, i % 6 == 5 ? 1 : 3, seed));
    if (i % 6 == 1) return text_of(decode::testing::squeeze_lz4(array));
    if (i % 6 == 2) return text_of(decode::testing::squeeze_zstd(array));
    return i % 6 == 3 ? test_jpeg(i) : text_of(array);
  }));
  Loader loader(wanted);
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  const Stats stats = loader.stats();
  EXPECT_EQ(stats.device->host_decoded, 8U);  // JPEGs under another name.
  EXPECT_EQ(stats.device->already_decoded, kCount - 8U);
  ASSERT_THAT(stats.fallbacks, SizeIs(1));
  EXPECT_THAT(stats.fallbacks[0].sentence, HasSubstr("come back to the host"));
  EXPECT_GE(stats.fallbacks[0].count, 32U);
}

TEST_F(DecodedByCuFile, CountsWhatCuFileCopies) {
  setenv("FEEDRACE_STUB_CUFILE_PATH", "compat", 1);
  const LoaderOptions wanted = options(write_decoded(plain_picture));
  {
    Loader loader(wanted);
    EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
    EXPECT_EQ(bytes_by(loader, Path::kGds), 0U);
    EXPECT_GT(bytes_by(loader, Path::kGdsCompat), 0U);
    EXPECT_GT(loader.stats().copies_per_byte(), 0);
    EXPECT_THAT(loader.stats().fallbacks, SizeIs(1));
  }
  unsetenv("FEEDRACE_STUB_CUFILE_PATH");
}

std::string some_damaged(int i) {
  const std::string content = plain_picture(i);
  if (i % 5 != 0) return content;
  switch (i / 5 % 5) {
    case 0:
      return content.substr(0, content.size() - 1);
    case 1:
      return content.substr(0, 40);
    case 2:
      return std::string(content).replace(content.find("False"), 5, "True ");
    case 3:
      return testing::npy("<f4", "4, 5, 3", std::string(4 * 5 * 3 * 4, 'x'));
    default:
      return "";
  }
}

TEST_F(DecodedByCuFile, BadPicturesFollowThePolicyWithTheWordsOfTheHost) {
  LoaderOptions wanted = options(write_decoded(some_damaged));
  for (const OnError policy : {OnError::kReplace, OnError::kZero}) {
    wanted.on_error = policy;
    Loader loader(wanted);
    EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
    EXPECT_EQ(loader.stats().bad_samples, 10U);
  }
  wanted.on_error = OnError::kRaise;
  for (int i = 0; i < 25; i += 5) {
    wanted.sources = {
        write_decoded([i](int k) { return k == i ? some_damaged(k) : plain_picture(k); })};
    const std::string error = error_of(wanted, "cufile");
    EXPECT_EQ(error, error_of(wanted, "buffered"));
    EXPECT_THAT(error, HasSubstr(test_key(i)));
  }
}

TEST_F(DecodedByCuFile, WithoutMemoryForThePassTheHostMakesThemFromTheirRows) {
  LoaderOptions wanted = options(write_decoded(plain_picture));
  wanted.queue_depth = 4;  // 8 buffers of 1 MiB.
  const std::vector<Seen> expected = on_host(wanted);
  // From less than the buffers take to more than all do: an error, the host's work, the device's.
  int refused = 0;
  int by_host = 0;
  int by_device = 0;
  for (std::size_t room = std::size_t{6} << 20; room < std::size_t{26} << 20; room += 480 << 10) {
    Loader loader(wanted);
    feedrace_stub_set_memory(feedrace_stub_memory_in_use() + room);
    try {
      EXPECT_EQ(load_device_epoch(loader), expected) << room;
      const DeviceStats stats = *loader.stats().device;
      EXPECT_EQ(stats.host_decoded + stats.already_decoded, static_cast<std::uint64_t>(kCount));
      ++(stats.host_decoded > 0 ? by_host : by_device);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("free memory")) << room;
      ++refused;
    }
    feedrace_stub_reset();
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(by_host, 0);
  EXPECT_GT(by_device, 0);
}

TEST_F(DecodedByCuFile, EndsInTheMidstOfWork) {
  const LoaderOptions wanted = options(write_decoded(plain_picture));
  feedrace_stub_set_delay_us(2000);
  for (int taken = 0; taken < 6; ++taken) {
    Loader loader(wanted);
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(loader.next());
  }
}

TEST_F(DecodedByCuFile, EveryCallMayFailAndNothingIsLost) {
  const LoaderOptions wanted = options(write_decoded(plain_picture));
  const std::vector<Seen> expected = on_host(wanted);
  for (const char* call :
       {"cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuEventRecord", "cuEventSynchronize",
        "cuStreamCreateWithPriority", "cuMemHostRegister_v2", "cuLaunchKernel"}) {
    for (const int nth : {1, 5, 13, 40}) {
      for (const int code : {2, 700}) {
        feedrace_stub_fail(call, nth, code);
        try {
          Loader loader(wanted);
          EXPECT_EQ(load_device_epoch(loader), expected) << call << " " << nth << " " << code;
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("; ")) << call << " " << nth << " " << code;
        }
        feedrace_stub_reset();
      }
    }
  }
}

TEST_F(DecodedByCuFile, ReadsThatFailAreBadSamples) {
  LoaderOptions wanted = options(write_decoded(plain_picture));
  wanted.on_error = OnError::kZero;
  Loader loader(wanted);
  // Every one: after a read of several samples that fails alone, each is read by itself.
  feedrace_stub_fail("cuFileRead", 0, EIO);
  std::size_t samples = 0;
  while (const auto batch = loader.next()) samples += batch->size();
  EXPECT_EQ(samples, static_cast<std::size_t>(kCount));
  EXPECT_EQ(loader.stats().blanked_samples, static_cast<std::uint64_t>(kCount));
}

TEST_F(DecodedByCuFile, OtherDataAndPipelinesAreRefused) {
  const std::string decoded = write_decoded(plain_picture);
  LoaderOptions wanted = options(decoded);
  EXPECT_EQ(error_of(wanted, "cufile"), "none");
  for (const std::string& source : {folder_, write_shards(dir_, 8, 1)}) {
    EXPECT_THAT(error_of(options(source), "cufile"),
                AllOf(HasSubstr("decoded pictures"), HasSubstr("pack --raw")));
  }
  dir_.write("loose/c0/0.npy", plain_picture(0));
  EXPECT_THAT(error_of(options(dir_ / "loose"), "cufile"), HasSubstr("pack --raw"));
  wanted.decode_device = "cpu";
  EXPECT_THAT(error_of(wanted, "cufile"), HasSubstr("leave out decode_device=\"cpu\""));
  wanted.decode_device = "auto";
  wanted.pipeline.steps.emplace_back(Grayscale{});
  EXPECT_THAT(error_of(wanted, "cufile"),
              AllOf(HasSubstr("\"cufile\" can't be had"), HasSubstr("grayscale")));
}

}  // namespace
}  // namespace feedrace::pipeline
