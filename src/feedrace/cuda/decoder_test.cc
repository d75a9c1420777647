// SPDX-License-Identifier: Apache-2.0
// nvJPEG through the plug-in's table, on the stub library.
#include <algorithm>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "feedrace/cuda/test_decoder.h"

namespace feedrace::cuda {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST_F(DecoderTest, PixelsAreThoseOfLibjpegHoweverLateTheStreamIs) {
  for (const double share : {0.0, 0.65, 1.0}) {
    feedrace_stub_set_delay_us(200);
    const auto opened = device();
    Decoder decoder(opened, options_of(share));
    ASSERT_EQ(decoder.status, FEEDRACE_CUDA_OK) << decoder.error.message;
    Batch batch(opened, all_kinds());
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
      EXPECT_THAT(batch.statuses(), Each(FEEDRACE_CUDA_OK));
      batch.expect_pixels();
    }
    EXPECT_EQ(batch.count(kHardware) > 0, share > 0);
    for (const std::size_t refused : {1U, 2U, 4U}) {  // Progressive, several scans, 4:1:1.
      EXPECT_EQ(batch.jpegs[refused].engine, kSoftware) << refused;
    }
  }
}

TEST_F(DecoderTest, TheEngineGetsItsShareOfTheBytes) {
  const auto opened = device();
  std::vector<Bytes> pictures;
  for (std::uint32_t i = 0; i < 40; ++i) pictures.push_back(baseline(30 + 5 * i, 24 + i, i));
  Batch batch(opened, pictures);
  std::size_t all_bytes = 0;
  std::size_t largest_bytes = 0;
  for (const Bytes& picture : pictures) {
    all_bytes += picture.size();
    largest_bytes = std::max(largest_bytes, picture.size());
  }
  for (const double share : {0.0, 0.25, 0.65, 0.9, 1.0}) {
    Decoder decoder(opened, options_of(share));
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
    batch.expect_pixels();
    std::size_t engine_bytes = 0;
    for (const feedrace_cuda_jpeg& jpeg : batch.jpegs) {
      if (jpeg.engine == kHardware) engine_bytes += jpeg.size_bytes;
    }
    const double wanted = share * static_cast<double>(all_bytes);
    EXPECT_NEAR(static_cast<double>(engine_bytes), wanted, static_cast<double>(largest_bytes));
    EXPECT_EQ(batch.count(kSoftware) == 0, share == 1.0);
    EXPECT_EQ(batch.count(kHardware) == 0, share == 0.0);
  }
}

TEST_F(DecoderTest, EqualPicturesAreSharedByCount) {
  const auto opened = device();
  Decoder decoder(opened, options_of(0.65));
  Batch batch(opened, std::vector<Bytes>(20, baseline()));
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  EXPECT_EQ(batch.count(kHardware), 13U);
  EXPECT_EQ(batch.count(kSoftware), 7U);
}

TEST_F(DecoderTest, TheEngineGetsMoreOfTheRestWhereItRefusesMany) {
  const auto opened = device();
  Decoder decoder(opened, options_of(0.5));
  std::vector<Bytes> pictures(10, progressive());
  pictures.insert(pictures.end(), 5, baseline(16, 16));
  Batch batch(opened, pictures);
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  EXPECT_EQ(batch.count(kHardware), 5U);
  batch.expect_pixels();
}

TEST_F(DecoderTest, DecodesRegions) {
  feedrace_stub_set_delay_us(100);
  const auto opened = device();
  for (const double share : {0.0, 0.65}) {
    Decoder decoder(opened, options_of(share));
    Batch batch(opened, all_kinds());
    batch.want(0, {3, 5, 20, 17});
    batch.want(1, {0, 0, 60, 47});
    batch.want(2, {32, 30, 1, 1});
    batch.want(3, {100, 0, 100, 120});
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
    EXPECT_THAT(batch.statuses(), Each(FEEDRACE_CUDA_OK));
    batch.expect_pixels();
  }
}

TEST_F(DecoderTest, LargePicturesAreTheDevicesFromTheHuffmanCodesOn) {
  const auto opened = device();
  Decoder decoder(opened, {0.0, 0, 4, 2000, 2000});
  Batch batch(opened, {baseline(1250, 800)});
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  batch.expect_pixels();
  EXPECT_EQ(feedrace_stub_calls("nvjpegDecoderJpegSupported"), 1U);
  batch.want(0, {10, 10, 50, 60});  // Of which that way takes none: the other is asked too.
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  batch.expect_pixels();
  EXPECT_EQ(feedrace_stub_calls("nvjpegDecoderJpegSupported"), 3U);
}

Bytes of_four(J_COLOR_SPACE stored_as) {
  JpegOptions options;
  options.stored_as = stored_as;
  return make_jpeg(make_pixels(16, 16, 4), options);
}

Bytes text_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(begin, begin + text.size());
}

TEST_F(DecoderTest, PicturesThatItRefusesHaveAStatusAndTheOthersTheirPixels) {
  const auto opened = device();
  JpegOptions arithmetic;
  arithmetic.arithmetic = true;
  JpegOptions plain;
  plain.stored_as = JCS_RGB;
  plain.luma_sampling = {1, 1};
  Bytes cut_short = baseline(16, 16);
  cut_short.resize(cut_short.size() - 20);
  Bytes tail = baseline(16, 16);
  tail.push_back(std::byte{1});
  Bytes header_only = baseline(16, 16);
  header_only.resize(30);
  header_only.push_back(std::byte{0xFF});
  header_only.push_back(std::byte{0xD9});
  const std::pair<Bytes, int> cases[] = {
      {of_four(JCS_CMYK), FEEDRACE_CUDA_UNSUPPORTED},
      {of_four(JCS_YCCK), FEEDRACE_CUDA_UNSUPPORTED},
      {make_jpeg(make_pixels(16, 16), arithmetic), FEEDRACE_CUDA_UNSUPPORTED},
      {make_jpeg(make_pixels(16, 16), plain), FEEDRACE_CUDA_UNSUPPORTED},
      {baseline(15, 16), FEEDRACE_CUDA_BAD_DATA},  // Smaller than its output.
      {cut_short, FEEDRACE_CUDA_BAD_DATA},
      {tail, FEEDRACE_CUDA_BAD_DATA},
      {header_only, FEEDRACE_CUDA_BAD_DATA},
      {text_of("no picture"), FEEDRACE_CUDA_BAD_DATA},
      {text_of(std::string("\xFF\xD8\xFF\xD9", 4)), FEEDRACE_CUDA_BAD_DATA},
      {Bytes{}, FEEDRACE_CUDA_BAD_DATA},
  };
  Batch batch(opened, {baseline(), progressive()});
  for (const auto& [bytes, status] : cases) batch.add_bad(bytes);
  Decoder decoder(opened, options_of(0.65));
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK) << decoder.error.message;
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    EXPECT_EQ(batch.jpegs[2 + i].status, cases[i].second) << "case " << i;
  }
  EXPECT_EQ(batch.jpegs[0].status, FEEDRACE_CUDA_OK);
  EXPECT_EQ(batch.jpegs[1].status, FEEDRACE_CUDA_OK);
  batch.expect_pixels();
}

TEST_F(DecoderTest, PicturesLargerThanTheEngineHasRoomForAreTheSoftwares) {
  const auto opened = device();
  Batch batch(opened, {baseline(320, 240), baseline(321, 16), baseline(16, 241)});
  Decoder decoder(opened, options_of(1));
  EXPECT_EQ(opened->table().has_hardware_engine(decoder.handle()), 1U);
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK) << decoder.error.message;
  EXPECT_EQ(batch.jpegs[0].engine, kHardware);
  EXPECT_EQ(batch.jpegs[1].engine, kSoftware);
  EXPECT_EQ(batch.jpegs[2].engine, kSoftware);
  batch.expect_pixels();
  const Decoder software(opened, options_of(0));
  EXPECT_EQ(opened->table().has_hardware_engine(software.handle()), 0U);
}

TEST_F(DecoderTest, ZerosBehindAPictureAreNoDamage) {
  const auto opened = device();
  Bytes padded = baseline();
  padded.resize(padded.size() + 300);
  Batch batch(opened, {padded});
  Decoder decoder(opened, options_of(1));
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  EXPECT_THAT(batch.statuses(), Each(FEEDRACE_CUDA_OK));
  batch.expect_pixels();
}

TEST_F(DecoderTest, DamageThatTheSoftwareSeesIsThePicturesOwn) {
  const auto opened = device();
  Bytes damaged = baseline(16, 16);
  // A restart marker where there is none.
  damaged[damaged.size() - 20] = std::byte{0xFF};
  damaged[damaged.size() - 19] = std::byte{0xD3};
  Batch batch(opened, {baseline(), progressive()});
  batch.add_bad(damaged);
  Decoder decoder(opened, options_of(0));
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  EXPECT_THAT(batch.statuses(),
              ::testing::ElementsAre(FEEDRACE_CUDA_OK, FEEDRACE_CUDA_OK, FEEDRACE_CUDA_BAD_DATA));
  batch.expect_pixels();
}

TEST_F(DecoderTest, AnyCutOfAPictureIsRefusedOrDecoded) {
  const auto opened = device();
  const Bytes whole = baseline(24, 24);
  Decoder decoder(opened, options_of(0.65));
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    Batch batch(opened, {});
    batch.add_bad(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
    EXPECT_EQ(batch.jpegs[0].status, FEEDRACE_CUDA_BAD_DATA) << size;
  }
}

TEST_F(DecoderTest, FactsTellOfLibraryAndEngine) {
  auto facts = nlohmann::json::parse(*plugin()->facts())["nvjpeg"];
  EXPECT_EQ(facts["version"], "13.0.4");
  EXPECT_THAT(facts["library"], HasSubstr("libnvjpeg.so.13"));
  EXPECT_EQ(facts["hardware"][0]["engines"], 1);
  EXPECT_EQ(facts["hardware"][0]["cores"], 8);
  EXPECT_EQ(facts["hardware"][0]["ordinal"], 0);

  feedrace_stub_fail("nvjpegCreateExV2", 0, 7);
  facts = nlohmann::json::parse(*plugin()->facts())["nvjpeg"];
  EXPECT_THAT(facts["hardware"][0]["missing"],
              AllOf(HasSubstr("status 7"), HasSubstr("ARCH_MISMATCH")));
  EXPECT_THAT(facts["hardware"][0]["remedy"], HasSubstr("hardware_share 0"));

  feedrace_stub_reset();
  feedrace_stub_fail("cuDevicePrimaryCtxRetain", 0, 2);
  facts = nlohmann::json::parse(*plugin()->facts())["nvjpeg"];
  EXPECT_THAT(facts["hardware"][0]["missing"], HasSubstr("cuDevicePrimaryCtxRetain"));

  feedrace_stub_reset();
  feedrace_stub_fail("nvjpegGetHardwareDecoderInfo", 1, 9);
  facts = nlohmann::json::parse(*plugin()->facts())["nvjpeg"];
  EXPECT_THAT(facts["hardware"][0]["missing"], HasSubstr("nvjpegGetHardwareDecoderInfo"));
}

TEST_F(DecoderTest, AReaderOfTheLastBatchOnTheStreamIsWaitedForBeforeTheEngineStarts) {
  const auto opened = device();
  Decoder decoder(opened, options_of(1));
  Batch batch(opened, std::vector<Bytes>(4, baseline()));
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  batch.wait();
  feedrace_stub_set_delay_us(20'000);
  const feedrace_cuda_picture& output = batch.jpegs[3].output;
  const std::size_t bytes = static_cast<std::size_t>(output.row_bytes) * output.height_px;
  const DeviceMemory kept(opened, bytes);
  feedrace_cuda_error error;
  ASSERT_EQ(opened->table().copy_on_device(opened->handle(), kept.address(), output.address, bytes,
                                           batch.stream.handle(), &error),
            FEEDRACE_CUDA_OK);
  ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  batch.jpegs[3].output.address = kept.address();
  batch.expect_pixels();
}

TEST_F(DecoderTest, DecodesBitstreamsInDeviceMemory) {
  feedrace_stub_set_delay_us(100);
  const auto opened = device();
  feedrace_cuda_decoder_options options = options_of(0.65);
  options.bitstream_on_device = 1;
  Decoder decoder(opened, options);
  ASSERT_EQ(decoder.status, FEEDRACE_CUDA_OK) << decoder.error.message;
  std::vector<Bytes> pictures = all_kinds();
  for (std::uint64_t i = 0; i < 12; ++i) pictures.push_back(baseline(100, 80, i));
  Batch batch(opened, pictures);
  batch.put_on_device();
  batch.want(8, {1, 2, 30, 40});
  batch.jpegs[9].device_bytes = 0;  // Only the host has it.
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK) << decoder.error.message;
    EXPECT_THAT(batch.statuses(), Each(FEEDRACE_CUDA_OK));
    batch.expect_pixels();
  }
  EXPECT_GT(batch.count(kHardware), 0U);
  EXPECT_EQ(feedrace_stub_calls("nvjpegDecodeBatchedEx"), 6U);  // Of the engine and the software.
  EXPECT_EQ(batch.jpegs[9].engine, kSoftware);
}

TEST_F(DecoderTest, MemoryIsAskedForAtTheBeginningOnly) {
  const auto opened = device();
  Decoder decoder(opened, options_of(0.65));
  Batch batch(opened, all_kinds());
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  }
  const std::uint64_t on_device = feedrace_stub_calls("cuMemAlloc_v2");
  const std::uint64_t pinned = feedrace_stub_calls("cuMemHostRegister_v2");
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  }
  EXPECT_EQ(feedrace_stub_calls("cuMemAlloc_v2"), on_device);
  EXPECT_EQ(feedrace_stub_calls("cuMemHostRegister_v2"), pinned);
  EXPECT_GT(pinned, 0U);
}

TEST_F(DecoderTest, RefusesWrongOptions) {
  const auto opened = device();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const feedrace_cuda_decoder_options wrong[] = {
      {-0.1, 0, 1, 1, 1}, {1.1, 0, 1, 1, 1}, {nan, 0, 1, 1, 1},
      {0.5, 0, 0, 1, 1},  {0.5, 0, 1, 0, 1}, {0.5, 0, 1, 1, 70'000},
  };
  for (const feedrace_cuda_decoder_options& options : wrong) {
    Decoder decoder(opened, options);
    EXPECT_EQ(decoder.status, FEEDRACE_CUDA_INVALID);
    EXPECT_THAT(decoder.error.message, HasSubstr("give "));
  }
}

TEST_F(DecoderTest, RefusesOutputsWithoutRoomAndBatchesThatAreTooLarge) {
  const auto opened = device();
  feedrace_cuda_decoder_options options = options_of(0.65);
  options.max_batch = 2;
  Decoder decoder(opened, options);
  Batch large(opened, std::vector<Bytes>(3, baseline()));
  EXPECT_EQ(decoder.decode(large.jpegs, large.stream), FEEDRACE_CUDA_INVALID);
  EXPECT_THAT(decoder.error.message,
              HasSubstr("3 pictures; the decoder was opened for max_batch 2"));
  Batch batch(opened, {baseline(), baseline()});
  batch.jpegs[1].output.row_bytes = 3 * 64 - 1;
  EXPECT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_INVALID);
  EXPECT_THAT(decoder.error.message, HasSubstr("output 1"));
  batch.jpegs.clear();
  EXPECT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
}

TEST_F(DecoderTest, DecodersOfSeveralThreadsShareADevice) {
  const auto opened = device();
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&opened, i] {
      Decoder decoder(opened, options_of(0.65));
      Batch batch(opened, {baseline(64, 48, i), progressive(i), baseline(100, 99, i + 10)});
      for (int round = 0; round < 5; ++round) {
        ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
        EXPECT_THAT(batch.statuses(), Each(FEEDRACE_CUDA_OK));
        batch.expect_pixels();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DecoderTest, ADecoderThatIsClosedWhileTheStreamIsLateLosesNothing) {
  feedrace_stub_set_delay_us(2000);
  const auto opened = device();
  Batch batch(opened, all_kinds());
  {
    Decoder decoder(opened, options_of(0.65));
    ASSERT_EQ(decoder.decode(batch.jpegs, batch.stream), FEEDRACE_CUDA_OK);
  }
  batch.expect_pixels();
}

}  // namespace
}  // namespace feedrace::cuda
