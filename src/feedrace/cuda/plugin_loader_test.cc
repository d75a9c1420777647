// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin_loader.h"

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/cuda/test_stubs.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PluginTest : public OnStubs {};

std::string load_failure(const PluginPlaces& places) {
  const auto plugin = Plugin::load(places);
  EXPECT_FALSE(plugin);
  EXPECT_EQ(plugin.error().code, ErrorCode::kUnsupported);
  return plugin.error().message;
}

TEST_F(PluginTest, NamesEveryPlaceThatWasTriedAndWhatToDo) {
  const testing::TempDir dir;
  const std::string text = dir.write("text.so", "no library");
  EXPECT_THAT(load_failure({{text, dir.path().string() + "/none"}, {}}),
              AllOf(HasSubstr("text.so"), HasSubstr("install feedrace-cuda"),
                    HasSubstr(", or take device=")));
  EXPECT_THAT(load_failure({{dir.path().string() + "/none"}, {}}), HasSubstr("/none"));
}

TEST_F(PluginTest, RefusesALibraryThatIsNone) {
  EXPECT_THAT(load_failure({{std::string(FEEDRACE_STUB_FOLDER) + "/libcuda.so.1"}, {}}),
              HasSubstr("is no plug-in of Feedrace"));
}

TEST_F(PluginTest, TellsWhatTheMachineHas) {
  feedrace_stub_set_devices(2);
  const auto facts = nlohmann::json::parse(*plugin()->facts());
  EXPECT_EQ(facts["driver"]["version"], "13.0");
  ASSERT_EQ(facts["devices"].size(), 2U);
  EXPECT_EQ(facts["devices"][1]["name"], "Stub GPU 1");
  EXPECT_EQ(facts["devices"][1]["pci"], "0000:02:00.0");
  EXPECT_EQ(facts["nvml"]["devices"][0]["pcie_lanes"], 16);
}

TEST_F(PluginTest, SaysWhyThereIsNoDevice) {
  feedrace_stub_set_devices(0);
  const auto loaded = plugin();
  const auto facts = nlohmann::json::parse(*loaded->facts());
  EXPECT_THAT(facts["devices_missing"], AllOf(HasSubstr("cuInit"), HasSubstr("100 (no CUDA")));
  const auto opened = Device::open(loaded, 0);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(opened.error().message, HasSubstr("check nvidia-smi"));
}

TEST_F(PluginTest, SaysWhyThereIsNoDriver) {
  const testing::TempDir empty;
  // The loader would find the stub that this test links, so the folder has one that is broken.
  const std::string broken = empty.write("libcuda.so.1", "no library");
  const auto loaded = Plugin::load({{FEEDRACE_BUILT_PLUGIN}, {empty.path().string()}});
  ASSERT_TRUE(loaded);
  EXPECT_TRUE((*loaded)->facts());
}

TEST_F(PluginTest, RefusesADeviceThatIsNotThere) {
  for (const int ordinal : {-1, 1, 1'000'000}) {
    const auto opened = Device::open(plugin(), ordinal);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(opened.error().message, HasSubstr("sees 1, counted from 0"));
  }
}

TEST_F(PluginTest, SaysHowMuchMemoryThereIsWhenItIsTooLittle) {
  feedrace_stub_set_memory(1 << 20);
  const auto opened = device();
  const DeviceMemory some(opened, 100'000);
  try {
    const DeviceMemory too_much(opened, 1 << 20);
    FAIL() << "more memory than there is";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("cuMemAlloc of 1048576 bytes on GPU 0 (Stub GPU 0)"),
                                    HasSubstr("of 1048576 free"), HasSubstr("lower prefetch")));
  }
}

TEST_F(PluginTest, MemoryIsAlignedForCuFile) {
  const auto opened = device();
  for (const std::size_t bytes : {1U, 4096U, 1'000'000U}) {
    const DeviceMemory memory(opened, bytes);
    EXPECT_EQ(memory.address() % (64 * 1024), 0U);
    EXPECT_TRUE(feedrace_stub_is_device_memory(reinterpret_cast<void*>(memory.address()), bytes));
  }
}

TEST_F(PluginTest, CopiesAreOrderedByTheStreamAndByEvents) {
  feedrace_stub_set_delay_us(200);
  const auto opened = device();
  HostMemory in(4096);
  HostMemory out(4096);
  const PinnedRange pinned_in(opened, in.data(), in.size_bytes());
  const PinnedRange pinned_out(opened, out.data(), out.size_bytes());
  const DeviceMemory memory(opened, 4096);
  Stream up(opened);
  Stream down(opened);
  Event arrived(opened);
  Event returned(opened);
  for (unsigned char round = 1; round < 50; ++round) {
    std::fill_n(in.data(), in.size_bytes(), std::byte{round});
    up.copy_to_device(memory.address(), in.data(), in.size_bytes());
    arrived.record(up.handle());
    down.wait(arrived);
    down.copy_to_host(out.data(), memory.address(), out.size_bytes());
    returned.record(down.handle());
    returned.wait();
    EXPECT_TRUE(returned.is_done());
    EXPECT_EQ(out.data()[4095], std::byte{round});
  }
}

TEST_F(PluginTest, AFailingCallIsNamedWithItsCodeAndRemedy) {
  struct Case {
    const char* call;
    int code;
    ErrorCode expected;
    const char* text;
  };
  const Case cases[] = {
      {"cuStreamCreateWithPriority", 2, ErrorCode::kUnsupported, "cuStreamCreate on GPU 0"},
      {"cuEventCreate", 700, ErrorCode::kUnsupported, "lost to this process"},
      {"cuMemHostRegister_v2", 712, ErrorCode::kInvalidArgument, "pin each range of memory once"},
      {"cuMemAlloc_v2", 999, ErrorCode::kInvalidArgument, "error 999"},
      {"cuCtxPushCurrent_v2", 201, ErrorCode::kInvalidArgument, "cuCtxPushCurrent of GPU 0"}};
  const auto opened = device();
  HostMemory memory(4096);
  for (const Case& one : cases) {
    feedrace_stub_fail(one.call, 0, one.code);
    const auto use_all = [&] {
      const Stream stream(opened);
      const Event event(opened);
      const PinnedRange pinned(opened, memory.data(), memory.size_bytes());
      const DeviceMemory on_device(opened, 10);
    };
    try {
      use_all();
      ADD_FAILURE() << one.call << " did not fail";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), one.expected) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(one.text));
    }
    feedrace_stub_reset();
  }
}

TEST_F(PluginTest, DevicesAreOpenedByManyThreadsAtOnce) {
  feedrace_stub_set_devices(2);
  const auto loaded = plugin();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&loaded, i] {
      for (int round = 0; round < 20; ++round) {
        const auto opened = *Device::open(loaded, i % 2);
        const DeviceMemory memory(opened, 1000);
        Stream stream(opened);
        Event event(opened);
        event.record(stream.handle());
        event.wait();
      }
    });
  }
}

}  // namespace
}  // namespace feedrace::cuda
