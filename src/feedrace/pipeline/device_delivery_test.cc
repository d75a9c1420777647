// SPDX-License-Identifier: Apache-2.0
// Loaders that deliver to a GPU, on the stub libraries: whole batches, by the path that users take.
#include "feedrace/pipeline/device_delivery.h"

#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/pipeline/test_device.h"

namespace feedrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(DeviceLoader, GivesTheBatchesOfTheHost) {
  feedrace_stub_set_delay_us(500);
  for (const DType dtype : {DType::kUint8, DType::kFloat16, DType::kFloat32}) {
    LoaderOptions wanted = options();
    wanted.pipeline.dtype = dtype;
    if (dtype == DType::kUint8) wanted.pipeline.mean = wanted.pipeline.std = {};
    Loader loader(wanted);
    EXPECT_EQ(loader.plan().device, "cuda:0");
    const std::vector<Seen> epoch = load_device_epoch(loader);
    EXPECT_THAT(epoch, SizeIs(6));
    EXPECT_EQ(epoch, on_host(wanted));
    EXPECT_THAT(loader.stats().fallbacks, IsEmpty());
  }
}

TEST_F(DeviceLoader, SaysWhereTensorsLie) {
  feedrace_stub_set_devices(2);
  LoaderOptions wanted = options();
  wanted.device = "cuda:1";
  Loader loader(wanted);
  const auto batch = loader.next();
  EXPECT_EQ(batch->images.device, 1);
  EXPECT_EQ(batch->labels.device, 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch->images.data) % 64, 0U);
  EXPECT_TRUE(feedrace_stub_is_device_memory(batch->images.data, batch->images.size_bytes()));
  EXPECT_TRUE(feedrace_stub_is_device_memory(batch->labels.data, batch->labels.size_bytes()));
}

TEST_F(DeviceLoader, KeepsWhatTheConsumerKeepsAndReusesTheRest) {
  feedrace_stub_set_delay_us(300);
  const std::vector<Seen> expected = on_host(options());
  Loader loader(options());
  std::vector<Batch> kept;
  while (auto batch = loader.next()) {
    batch->on_device->hand_over(0);
    kept.push_back(*std::move(batch));
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(remember_on_device(kept[i]), expected[i]);
  }
}

TEST_F(DeviceLoader, BatchesOutliveIt) {
  feedrace_stub_set_delay_us(300);
  std::vector<Batch> kept;
  {
    Loader loader(options());
    kept.push_back(*loader.next());
    kept.push_back(*loader.next());
  }
  const std::vector<Seen> expected = on_host(options());
  EXPECT_EQ(remember_on_device(kept[0]), expected[0]);
  EXPECT_EQ(remember_on_device(kept[1]), expected[1]);
}

TEST_F(DeviceLoader, GoesOnBehindAPauseAndAState) {
  const std::vector<Seen> expected = on_host(options());
  Loader first(options());
  EXPECT_EQ(remember_on_device(*first.next()), expected[0]);
  first.pause();
  EXPECT_EQ(remember_on_device(*first.next()), expected[1]);
  Loader second(options());
  second.load_state(first.state());
  EXPECT_EQ(remember_on_device(*second.next()), expected[2]);
}

TEST_F(DeviceLoader, SlotsLieOnTheDevicesSideOfTheMachine) {
  const testing::TempDir system;
  for (const int node : {0, 1}) {
    system.write(fmt::format("sys/devices/system/node/node{}/cpulist", node), "0\n");
  }
  system.write("sys/devices/system/node/online", "0-1\n");
  LoaderOptions wanted = options();
  wanted.system_root = system.path().string();
  const auto sentences_with = [&](int node) {
    feedrace_stub_set_host_node(node);
    Loader loader(wanted);
    loader.next();
    std::vector<std::string> all;
    for (const FallbackCount& fallback : loader.stats().fallbacks) all.push_back(fallback.sentence);
    return all;
  };
  EXPECT_THAT(sentences_with(-1), IsEmpty());
  EXPECT_THAT(sentences_with(0), IsEmpty());  // There is one everywhere.
  EXPECT_THAT(sentences_with(60), ElementsAre(HasSubstr("batch slots lie anywhere")));
}

TEST_F(DeviceLoader, PutsWhatCanNotBePinnedThroughPageableMemoryAndSaysSo) {
  feedrace_stub_fail("cuMemHostRegister_v2", 0, 2);
  Loader loader(options());
  const std::vector<Seen> epoch = load_device_epoch(loader);
  EXPECT_EQ(epoch, on_host(options()));
  const auto fallbacks = loader.stats().fallbacks;
  const auto says = [](const char* what) {
    return ::testing::Field(&FallbackCount::sentence, HasSubstr(what));
  };
  EXPECT_THAT(fallbacks, ::testing::Contains(says("batch slots are not pinned")));
}

TEST_F(DeviceLoader, RefusesADeviceThatIsNotThereWithTheChain) {
  const auto message = [&](const LoaderOptions& wanted, ErrorCode code) -> std::string {
    try {
      const Loader loader(wanted);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    ADD_FAILURE() << "the loader was made";
    return {};
  };
  LoaderOptions wanted = options();
  wanted.device = "cuda:7";
  EXPECT_THAT(message(wanted, ErrorCode::kUnsupported),
              AllOf(HasSubstr("device \"cuda:7\" can't be had"), HasSubstr("sees 1")));
  for (const char* name : {"gpu", "cuda:", "cuda:-1", "cuda:1x", "", "cuda:99999999999"}) {
    wanted.device = name;
    EXPECT_THAT(message(wanted, ErrorCode::kInvalidArgument), HasSubstr("it must be \"cpu\""));
  }
  wanted = options();
  wanted.cuda_plugin = {dir_ / "none.so"};
  EXPECT_THAT(message(wanted, ErrorCode::kUnsupported),
              AllOf(HasSubstr("none.so"), HasSubstr("install feedrace-cuda")));
}

TEST_F(DeviceLoader, AutoTakesTheHostAndSaysWhy) {
  LoaderOptions wanted = options();
  wanted.device = "auto";
  {
    const Loader loader(wanted);
    EXPECT_EQ(loader.plan().device, "cuda:0");
    EXPECT_EQ(loader.plan().device_reason, "a GPU can be used");
  }
  feedrace_stub_set_devices(0);
  Loader loader(wanted);
  EXPECT_EQ(loader.plan().device, "cpu");
  EXPECT_THAT(loader.plan().device_reason, HasSubstr("no GPU can be used: cuInit"));
  EXPECT_EQ(load_epoch(loader), on_host(wanted));
}

TEST_F(DeviceLoader, ALostDeviceIsAnErrorAndNoHang) {
  for (const char* call : {"cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuMemAlloc_v2"}) {
    Loader loader(options());
    feedrace_stub_fail(call, 0, 700);
    try {
      while (loader.next()) {
      }
      ADD_FAILURE() << call;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_THAT(error.what(), HasSubstr("700"));
    }
    feedrace_stub_reset();
  }
}

TEST_F(DeviceLoader, AFullDeviceIsAnErrorWithTheSizes) {
  feedrace_stub_set_memory(50'000);
  Loader loader(options());
  try {
    loader.next();
    FAIL() << "no memory, yet a batch";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("cuMemAlloc of"), HasSubstr("of 50000 free")));
  }
}

}  // namespace
}  // namespace feedrace::pipeline
