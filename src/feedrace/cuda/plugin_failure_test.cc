// SPDX-License-Identifier: Apache-2.0
// Plug-ins, drivers and libraries that do not fit, and calls of the table that fail.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "feedrace/cuda/test_stubs.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PluginFailure : public OnStubs {};

std::string refusal_of_table(const std::string& version_and_bytes) {
  setenv("FEEDRACE_STUB_TABLE", version_and_bytes.c_str(), 1);
  const std::string path = std::string(FEEDRACE_STUB_FOLDER) + "/libtable.so";
  const auto loaded = Plugin::load({{path}, {}});
  unsetenv("FEEDRACE_STUB_TABLE");
  return loaded ? "" : loaded.error().message;
}

TEST_F(PluginFailure, APluginOfAnotherVersionIsRefused) {
  const std::string bytes = std::to_string(sizeof(feedrace_cuda_plugin));
  for (const char* version : {"0", "2"}) {
    EXPECT_THAT(refusal_of_table(std::string(version) + " " + bytes),
                AllOf(HasSubstr(std::string("libtable.so has version ") + version),
                      HasSubstr("install feedrace and feedrace-cuda of one version")));
  }
}

TEST_F(PluginFailure, ATableThatIsTooShortIsRefused) {
  EXPECT_THAT(
      refusal_of_table("1 64"),
      AllOf(HasSubstr("version 1 of the table (64 bytes), and 1 ("), HasSubstr("of one version")));
}

/// A library that is there and has none of the functions that are looked for.
std::string unrelated_library() {
  Dl_info info{};
  EXPECT_NE(dladdr(dlsym(RTLD_DEFAULT, "__cxa_demangle"), &info), 0);
  return std::filesystem::canonical(info.dli_fname).string();
}

/// What `info` says of a part, in a process that has not opened its library before.
[[noreturn]] void tell(const std::string& folder, const char* part) {
  const auto other = *Plugin::load({{FEEDRACE_BUILT_PLUGIN}, {folder, FEEDRACE_STUB_FOLDER}});
  const auto facts = nlohmann::json::parse(*other->facts());
  std::fprintf(stderr, "%s\n", facts[part].dump().c_str());
  std::_Exit(facts["devices"].empty() ? 3 : 0);
}

TEST_F(PluginFailure, ADriverThatIsTooOldIsSaidWithWhatItLacks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const testing::TempDir folder;
  std::filesystem::create_symlink(unrelated_library(), folder.path() / "libcuda.so.1");
  EXPECT_EXIT(tell(folder.path().string(), "driver"), ::testing::ExitedWithCode(3),
              "lacks cuInit, .*install a driver for CUDA 13.0 or newer");
}

TEST_F(PluginFailure, AnNvmlThatIsTooOldIsSaid) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const testing::TempDir folder;
  std::filesystem::create_symlink(unrelated_library(), folder.path() / "libnvidia-ml.so.1");
  EXPECT_EXIT(tell(folder.path().string(), "nvml"), ::testing::ExitedWithCode(0),
              "is too old.*comes with the driver");
}

TEST_F(PluginFailure, WhatFailsOfTheFactsIsSaidAndTheRestIsThere) {
  const auto loaded = plugin();
  feedrace_stub_fail("nvmlInit_v2", 1, 4);
  auto facts = nlohmann::json::parse(*loaded->facts());
  EXPECT_EQ(facts["nvml"]["missing"], "nvmlInit gave 4 (an error of the stub)");
  EXPECT_EQ(facts["devices"].size(), 1U);
  feedrace_stub_fail("cuDeviceGet", 0, 101);  // nvJPEG's facts ask too.
  facts = nlohmann::json::parse(*loaded->facts());
  EXPECT_THAT(facts["devices_missing"],
              AllOf(HasSubstr("cuDeviceGet of 0: error 101"), HasSubstr("feedrace gpu-info")));
  EXPECT_EQ(facts["driver"]["version"], "13.0");
}

TEST_F(PluginFailure, ATextIsCutWhereItsPlaceEnds) {
  const auto loaded = plugin();
  const feedrace_cuda_plugin& table = loaded->table();
  feedrace_cuda_error error{};
  std::size_t needed_bytes = 0;
  ASSERT_EQ(table.info(loaded->runtime(), nullptr, 0, &needed_bytes, &error), FEEDRACE_CUDA_OK);
  char text[8] = "xxxxxxx";
  ASSERT_EQ(table.info(loaded->runtime(), text, sizeof(text), nullptr, &error), FEEDRACE_CUDA_OK);
  EXPECT_EQ(std::string(text), loaded->facts()->substr(0, sizeof(text) - 1));
  EXPECT_EQ(needed_bytes, loaded->facts()->size() + 1);
}

/// A call of the table that failed, and what it said.
std::string failure(int status, const feedrace_cuda_error& error) {
  EXPECT_NE(status, FEEDRACE_CUDA_OK);
  return error.message;
}

TEST_F(PluginFailure, MemoryFactsAreThoseOfTheDevice) {
  feedrace_stub_set_memory(1 << 20);
  const auto opened = device();
  const DeviceMemory some(opened, 1000);
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  feedrace_cuda_error error{};
  const auto ask = [&] {
    return opened->table().memory_facts(opened->handle(), &free_bytes, &total_bytes, &error);
  };
  ASSERT_EQ(ask(), FEEDRACE_CUDA_OK);
  EXPECT_EQ(total_bytes, 1U << 20U);
  EXPECT_EQ(free_bytes, total_bytes - feedrace_stub_memory_in_use());
  feedrace_stub_fail("cuMemGetInfo_v2", 1, 700);
  EXPECT_THAT(failure(ask(), error), AllOf(HasSubstr("cuMemGetInfo of GPU 0"), HasSubstr("lost")));
}

TEST_F(PluginFailure, NoBytesAreNoMemoryAndNoCopy) {
  const auto opened = device();
  const feedrace_cuda_plugin& table = opened->table();
  feedrace_cuda_error error{};
  std::uint64_t address = 0;
  EXPECT_THAT(failure(table.allocate(opened->handle(), 0, &address, &error), error),
              HasSubstr("give a size"));
  EXPECT_EQ(table.copy_to_device(opened->handle(), 0, nullptr, 0, 0, &error), FEEDRACE_CUDA_OK);
  EXPECT_EQ(table.copy_to_host(opened->handle(), nullptr, 0, 0, 0, &error), FEEDRACE_CUDA_OK);
  EXPECT_EQ(table.copy_on_device(opened->handle(), 0, 0, 0, 0, &error), FEEDRACE_CUDA_OK);
  table.release(opened->handle(), 12345);  // Not ours: nothing happens.
}

TEST_F(PluginFailure, CopiesOnTheDeviceAreTimedByTheirEvents) {
  const auto opened = device();
  const feedrace_cuda_plugin& table = opened->table();
  Stream stream(opened);
  Event begin(opened, true);
  Event end(opened, true);
  const DeviceMemory from(opened, 4096);
  const DeviceMemory to(opened, 4096);
  const std::string in(4096, 'f');
  std::string out(4096, ' ');
  feedrace_cuda_error error{};
  stream.copy_to_device(from.address(), in.data(), in.size());
  begin.record(stream.handle());
  ASSERT_EQ(table.copy_on_device(opened->handle(), to.address(), from.address(), 4096,
                                 stream.handle(), &error),
            FEEDRACE_CUDA_OK);
  end.record(stream.handle());
  stream.copy_to_host(out.data(), to.address(), out.size());
  Event read(opened);
  read.record(stream.handle());
  read.wait();
  EXPECT_EQ(out, in);
  float milliseconds = -1;
  const auto ask = [&] {
    return table.elapsed_ms(opened->handle(), begin.handle(), end.handle(), &milliseconds, &error);
  };
  ASSERT_EQ(ask(), FEEDRACE_CUDA_OK);
  EXPECT_GE(milliseconds, 0.0F);
  feedrace_stub_fail("cuEventElapsedTime", 0, 400);
  feedrace_stub_fail("cuEventElapsedTime_v2", 0, 400);
  EXPECT_THAT(failure(ask(), error), HasSubstr("cuEventElapsedTime on GPU 0"));
  feedrace_stub_fail("cuMemcpyDtoDAsync_v2", 1, 700);
  EXPECT_THAT(failure(table.copy_on_device(opened->handle(), to.address(), from.address(), 4096,
                                           stream.handle(), &error),
                      error),
              HasSubstr("a copy on the device on GPU 0"));
}

TEST_F(PluginFailure, EveryStepOfOpeningADeviceIsNamed) {
  const auto loaded = plugin();
  for (const char* call : {"cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain"}) {
    feedrace_stub_fail(call, 1, 999);
    const auto opened = Device::open(loaded, 0);
    ASSERT_FALSE(opened) << call;
    EXPECT_THAT(opened.error().message, AllOf(HasSubstr(call), HasSubstr("error 999")));
  }
}

}  // namespace
}  // namespace feedrace::cuda
