// SPDX-License-Identifier: Apache-2.0
// What cuFile is started with, refuses and tells; which path it takes.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "feedrace/cuda/test_direct.h"

namespace feedrace::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// --- what cuFile needs
// -----------------------------------------------------------------------------

TEST_F(DirectTest, RefusesAKernelWithoutModulesBeforeCuFileIsTouched) {
  std::filesystem::remove(system_.path() / "proc/modules");
  const Outcome came = open_direct();
  EXPECT_EQ(came.status, FEEDRACE_CUDA_UNSUPPORTED);
  EXPECT_THAT(came.text, AllOf(HasSubstr("/proc/modules"), HasSubstr("spin for ever")));
  EXPECT_EQ(feedrace_stub_calls("cuFileDriverOpen"), 0U);
}

TEST_F(DirectTest, RefusesASystemWithoutUdev) {
  std::filesystem::remove(system_.path() / "run/udev");
  EXPECT_THAT(open_direct().text, AllOf(HasSubstr("5027"), HasSubstr("-v /run/udev:/run/udev:ro")));
}

TEST_F(DirectTest, RefusesNvidiaFsWithoutItsNodesAndTakesItWithThem) {
  system_.write("proc/driver/nvidia-fs/devcount", "4\n");
  system_.write("proc/driver/nvidia-fs/version", "version: 2.30\n");
  EXPECT_THAT(open_direct().text, AllOf(HasSubstr("4 devices"), HasSubstr("--device")));
  EXPECT_EQ(feedrace_stub_calls("cuFileDriverOpen"), 0U);
  system_.write("dev/nvidia-fs0", "");
  ASSERT_EQ(open_direct().text, "");
  EXPECT_EQ(facts()["nvidia_fs"]["devices"], 4);
}

/// What `info` says of the libcufile.so.0 of a folder, in a process that has opened none before:
/// the loader would give that one again.
[[noreturn]] void tell_of_cufile(const std::string& folder) {
  const auto other = *Plugin::load({{FEEDRACE_BUILT_PLUGIN}, {folder, FEEDRACE_STUB_FOLDER}});
  const auto said = nlohmann::json::parse(*other->facts())["cufile"];
  std::fprintf(stderr, "%s\n", said.dump().c_str());
  std::_Exit(0);
}

TEST_F(DirectTest, SaysWhatALibraryLacks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const testing::TempDir other;
  std::filesystem::create_symlink(std::string(FEEDRACE_STUB_FOLDER) + "/libcuda.so.1",
                                  other.path() / "libcufile.so.0");
  EXPECT_EXIT(tell_of_cufile(other.path().string()), ::testing::ExitedWithCode(0),
              "lacks cuFileGetVersion, cuFileDriverOpen, .*install cuFile 1.15");
}

TEST_F(DirectTest, TellsTheLibraryWithoutStartingIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(tell_of_cufile("/nowhere"), ::testing::ExitedWithCode(0), "\"version\":\"1.15\"");
  EXPECT_EQ(feedrace_stub_calls("cuFileDriverOpen"), 0U);
}

/// How far NVIDIA's own library comes on the stub of libcuda, which lacks most of what it wants.
/// From 1.16 on it spins where the kernel has no modules, so the true gate stands before those.
[[noreturn]] void start_cufile_of(const std::string& folder, const std::string& root) {
  const auto other = *Plugin::load({{FEEDRACE_BUILT_PLUGIN}, {folder, FEEDRACE_STUB_FOLDER}});
  const auto opened = *Device::open(other, 0);
  const std::string version = nlohmann::json::parse(*other->facts())["cufile"].value("version", "");
  feedrace_cuda_direct_options options{};
  if (version == "1.15") options.system_root = root.c_str();
  feedrace_cuda_direct* direct = nullptr;
  feedrace_cuda_error error{};
  const int status = opened->table().open_direct(opened->handle(), &options, &direct, &error);
  std::fprintf(stderr, "%s: %d %s\n", version.c_str(), status, error.message);
  std::_Exit(fcntl(0, F_GETFD) < 0 ? 1 : 0);
}

TEST_F(DirectTest, TheRealLibraryIsOpenedAndSaysThatItCannotStart) {
  const char* folder = std::getenv("FEEDRACE_REAL_CUFILE");
#ifdef FEEDRACE_FOUND_CUFILE  // By CMake, beside the headers; not under sanitizers, which it has
                              // not.
  if (folder == nullptr) folder = FEEDRACE_FOUND_CUFILE;
#endif
  if (folder == nullptr) GTEST_SKIP() << "FEEDRACE_REAL_CUFILE names no folder with libcufile.so.0";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(start_cufile_of(folder, root_), ::testing::ExitedWithCode(0),
              access("/proc/modules", R_OK) == 0 ? "1.15: 1 .*gave 5033|1.[12][0-9]: [01]"
                                                 : "1.15: 1 .*gave 5033|: 1 /proc/modules");
}

TEST_F(DirectTest, RefusesWhenTheDevicesAreGone) {
  feedrace_stub_fail("cuDeviceGetCount", 1, 100);
  EXPECT_THAT(open_direct().text, HasSubstr("cuDeviceGetCount"));
  feedrace_stub_set_devices(0);
  EXPECT_THAT(open_direct().text, HasSubstr("CUDA_VISIBLE_DEVICES"));
}

TEST_F(DirectTest, PutsStdinBackWhenCuFileClosesIt) {
  stub("CLOSES_STDIN", "1");
  const int before = fcntl(0, F_GETFD);
  ASSERT_GE(before, 0) << "this test needs a stdin";
  EXPECT_THAT(open_direct().text, HasSubstr("5033"));
  EXPECT_GE(fcntl(0, F_GETFD), 0);
}

// --- parameters
// -------------------------------------------------------------------------------------

TEST_F(DirectTest, SetsParametersBeforeTheStartAndTellsThemAfterIt) {
  options_.thread_count = 6;
  options_.max_direct_bytes = std::uint64_t{8} << 20U;
  options_.max_pinned_bytes = std::uint64_t{1} << 30U;
  options_.use_p2pdma = 1;
  ASSERT_EQ(open_direct().text, "");
  const auto parameters = facts()["parameters"];
  EXPECT_EQ(parameters["max_io_threads"], 6);
  EXPECT_EQ(parameters["max_direct_io_size_kb"], 8192);
  EXPECT_EQ(parameters["max_device_pinned_mem_size_kb"], 1 << 20);
  EXPECT_EQ(parameters["use_pci_p2pdma"], true);
  EXPECT_EQ(parameters["parallel_io"], true);
  EXPECT_EQ(facts()["version"], "1.15");
}

TEST_F(DirectTest, NamesAParameterThatIsOutOfRange) {
  options_.max_direct_bytes = 1024;
  const Outcome came = open_direct();
  EXPECT_EQ(came.status, FEEDRACE_CUDA_INVALID);
  EXPECT_THAT(came.text, AllOf(HasSubstr("max_direct_io_size_kb"), HasSubstr("5003")));
}

TEST_F(DirectTest, UsesACuFileThatAnotherStartedAndLeavesItOpen) {
  feedrace_stub_fail("cuFileSetParameterBool", 0, 5026);
  feedrace_stub_fail("cuFileDriverOpen", 1, 5026);
  ASSERT_EQ(open_direct().text, "");
  table().close_direct(std::exchange(direct_, nullptr));
  EXPECT_EQ(feedrace_stub_calls("cuFileDriverClose_v2"), 0U);
}

TEST_F(DirectTest, StartsOnceForTwoReadersAndStopsWithTheLast) {
  ASSERT_EQ(open_direct().text, "");
  feedrace_cuda_direct* const first = direct_;
  ASSERT_EQ(open_direct().text, "");
  EXPECT_EQ(feedrace_stub_calls("cuFileDriverOpen"), 1U);
  table().close_direct(first);
  EXPECT_EQ(feedrace_stub_calls("cuFileDriverClose_v2"), 0U);
  table().close_direct(std::exchange(direct_, nullptr));
  EXPECT_EQ(feedrace_stub_calls("cuFileDriverClose_v2"), 1U);
}

// --- every error
// -------------------------------------------------------------------------------------

TEST_F(DirectTest, EveryErrorOfCuFileHasATextOfItsOwn) {
  ASSERT_EQ(open_direct().text, "");
  const Descriptor file(files_.write("data", content_of(kBlock)), O_RDONLY | O_DIRECT);
  std::map<std::string, int> texts;
  for (int code = 5001; code <= 5050; ++code) {
    if (code == 5021 || code == 5032) continue;  // cuFile has none of this number.
    feedrace_stub_fail("cuFileHandleRegister", 1, code);
    feedrace_cuda_file* opened = nullptr;
    const Outcome came = open_file(file.number(), &opened);
    ASSERT_NE(came.status, 0) << code;
    const std::string number = std::to_string(code);
    EXPECT_THAT(came.text, AllOf(HasSubstr("cuFileHandleRegister of " + files_ / "data"),
                                 HasSubstr(" gave " + number + " ("), HasSubstr("; "),
                                 Not(HasSubstr("newer than Feedrace"))));
    const std::size_t behind = came.text.find(number) + number.size();
    EXPECT_EQ(++texts[came.text.substr(behind)], 1) << came.text;
  }
  feedrace_stub_fail("cuFileHandleRegister", 1, 5099);
  feedrace_cuda_file* opened = nullptr;
  EXPECT_THAT(open_file(file.number(), &opened).text, HasSubstr("newer than Feedrace"));
}

TEST_F(DirectTest, ALostDeviceIsLostInCuFileToo) {
  ASSERT_EQ(open_direct().text, "");
  const Descriptor file(files_.write("data", content_of(kBlock)), O_RDONLY | O_DIRECT);
  feedrace_stub_fail("cuFileHandleRegister", 1, 700 * 10000 + 5011);
  feedrace_cuda_file* opened = nullptr;
  const Outcome came = open_file(file.number(), &opened);
  EXPECT_EQ(came.status, FEEDRACE_CUDA_LOST);
  EXPECT_THAT(came.text, AllOf(HasSubstr("5011"), HasSubstr("700")));
}

// --- memory and files
// ----------------------------------------------------------------------------------

TEST_F(DirectTest, RegistersWholePagesOnce) {
  ASSERT_EQ(open_direct().text, "");
  take_memory();
  feedrace_cuda_error error{};
  const std::uint64_t at = memory_.address();
  EXPECT_EQ(table().register_memory(direct_, at + kBlock, kPage, &error), FEEDRACE_CUDA_INVALID);
  EXPECT_THAT(error.message, HasSubstr("whole pages of 65536"));
  EXPECT_EQ(table().register_memory(direct_, at, kPage - 1, &error), FEEDRACE_CUDA_INVALID);
  EXPECT_EQ(table().register_memory(direct_, at + kPage, kPage, &error), FEEDRACE_CUDA_INVALID);
  EXPECT_THAT(error.message, HasSubstr("unregister it first"));
  table().unregister_memory(direct_, at);
  table().unregister_memory(direct_, at);
  EXPECT_EQ(feedrace_stub_calls("cuFileBufDeregister"), 1U);
  feedrace_stub_fail("cuFileBufRegister", 1, 5016);
  EXPECT_EQ(table().register_memory(direct_, at, kPage, &error), FEEDRACE_CUDA_NO_MEMORY);
  EXPECT_THAT(error.message, AllOf(HasSubstr("65536 bytes"), HasSubstr("BAR1")));
  EXPECT_EQ(table().register_memory(direct_, at, kPage, &error), 0) << error.message;
}

TEST_F(DirectTest, RefusesDescriptorsThatCannotBeReadDirectly) {
  ASSERT_EQ(open_direct().text, "");
  const std::string path = files_.write("data", content_of(kBlock));
  feedrace_cuda_file* file = nullptr;
  const auto refusal = [&](const std::string& of, int flags) {
    const Descriptor descriptor(of, flags);
    --handles_told_to_fail_;  // cuFile is not even asked.
    return open_file(descriptor.number(), &file).text;
  };
  EXPECT_THAT(refusal(path, O_RDONLY), HasSubstr("without O_DIRECT"));
  EXPECT_THAT(refusal(path, O_WRONLY | O_DIRECT), HasSubstr("writing only"));
  EXPECT_THAT(refusal(files_.path().string(), O_RDONLY), HasSubstr("no regular file"));
  EXPECT_THAT(refusal("/nowhere", O_RDONLY), HasSubstr("errno 9"));
  EXPECT_EQ(feedrace_stub_calls("cuFileHandleRegister"), 0U);
}

// --- which path
// ---------------------------------------------------------------------------------------------

struct Way {
  const char* version;
  const char* stub_path;
  const char* path;
  std::vector<std::uint64_t> bytes;  // Direct, compatible, unknown.
};

TEST_F(DirectTest, CountsBytesByThePathThatTheStatisticsShow) {
  const Way ways[] = {
      {"1150", "p2p", "p2pdma", {kPage, 0, 0}},
      {"1180", "nvfs", "nvidia-fs", {kPage, 0, 0}},
      {"1190", "p2p", "p2pdma", {kPage, 0, 0}},
      {"1200", "nvfs", "nvidia-fs", {kPage, 0, 0}},
      {"1150", "compat", "compatible", {0, kPage, 0}},
      {"1200", "sneaky", "compatible", {0, kPage, 0}},
      {"1200", "silent", "unknown", {0, 0, kPage}},
      {"1300", "p2p", "unknown", {0, 0, kPage}},
      {"1100", "p2p", "unknown", {0, 0, kPage}},
  };
  for (const Way& way : ways) {
    SCOPED_TRACE(std::string(way.version) + " " + way.stub_path);
    stub("VERSION", way.version);
    stub("PATH", way.stub_path);
    open_all(content_of(2 * kPage));
    EXPECT_EQ(read(kPage, kPage).text, "");
    const auto now = counts();
    EXPECT_THAT((std::vector{now.direct_bytes, now.compatible_bytes, now.unknown_bytes}),
                ::testing::ElementsAreArray(way.bytes));
    EXPECT_EQ(facts()["file_systems"][0]["path"], way.path);
    EXPECT_EQ(facts()["file_systems"][0]["probed_file"], path_);
    close_all();
  }
}

TEST_F(DirectTest, StatisticsThatFailTellNothing) {
  for (const char* call : {"cuFileSetStatsLevel", "cuFileStatsStart", "cuFileGetStatsL3"}) {
    SCOPED_TRACE(call);
    feedrace_stub_fail(call, 1, 5030);
    open_all(content_of(kPage));
    EXPECT_EQ(facts()["file_systems"][0]["path"], "unknown");
    close_all();
  }
}

TEST_F(DirectTest, AnsweringForSmallFilesIsLeftToLargerOnes) {
  ASSERT_EQ(open_direct().text, "");
  take_memory();
  const Descriptor small(files_.write("small", content_of(100)), O_RDONLY | O_DIRECT);
  feedrace_cuda_file* file = nullptr;
  ASSERT_EQ(open_file(small.number(), &file).text, "");
  EXPECT_EQ(facts()["file_systems"].size(), 0U);
  table().close_file(file);
  const Descriptor large(files_.write("large", content_of(kBlock)), O_RDONLY | O_DIRECT);
  ASSERT_EQ(open_file(large.number(), &file_).text, "");
  EXPECT_EQ(facts()["file_systems"].size(), 1U);
}

TEST_F(DirectTest, WithoutFallbackCopyingIsRefusedWithTheReason) {
  options_.allow_compatible = 0;
  const std::string path = files_.write("data", content_of(kPage));
  const Descriptor file(path, O_RDONLY | O_DIRECT);
  const auto refusal = [&](const char* stub_path) {
    stub("PATH", stub_path);
    EXPECT_EQ(open_direct().text, "");
    const Outcome came = open_file(file.number(), &file_);
    EXPECT_EQ(came.status, FEEDRACE_CUDA_UNSUPPORTED);
    table().close_direct(std::exchange(direct_, nullptr));
    return came.text;
  };
  EXPECT_THAT(refusal("compat"), AllOf(HasSubstr("5008"), HasSubstr("local NVMe")));
  --handles_told_to_fail_;  // The rest is registered, probed, and let go.
  EXPECT_THAT(refusal("sneaky"), AllOf(HasSubstr(path), HasSubstr("through the host's memory"),
                                       HasSubstr("docs/gpudirect.md")));
  // cuFile tells nothing of itself, and does not say that it may not copy.
  feedrace_stub_fail("cuFileGetParameterBool", 0, 5030);
  --handles_told_to_fail_;
  EXPECT_THAT(refusal("silent"), HasSubstr("as far as can be seen"));
}

TEST_F(DirectTest, WithoutFallbackDirectReadsGoOn) {
  options_.allow_compatible = 0;
  open_all(content_of(kPage));
  EXPECT_EQ(read(kPage, 0).bytes, kPage);
  EXPECT_EQ(facts()["parameters"]["allow_compat_mode"], false);
}

// --- closing in any order
// ---------------------------------------------------------------------------------------

TEST_F(DirectTest, AReaderMayBeClosedBeforeItsFilesAndItsMemory) {
  open_all(content_of(kPage));
  table().close_direct(std::exchange(direct_, nullptr));
  EXPECT_EQ(feedrace_stub_calls("cuFileDriverClose_v2"), 1U);
  EXPECT_EQ(feedrace_stub_calls("cuFileBufDeregister"), 2U);  // The probe's as well.
  EXPECT_THAT(read(kBlock, 0).text, HasSubstr("close_direct was called"));
}

TEST_F(DirectTest, CallsOfTheDriverThatFailAreToldAndLeakNothing) {
  for (const char* call : {"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2"}) {
    feedrace_stub_fail(call, 1, 2);
    EXPECT_THAT(open_direct().text, HasSubstr("error 2"));
  }
  ASSERT_EQ(open_direct().text, "");
  const Descriptor file(files_.write("data", content_of(kBlock)), O_RDONLY | O_DIRECT);
  for (const auto& [call, code] : {std::pair{"cuMemAlloc_v2", 2}, {"cuFileBufRegister", 5016}}) {
    feedrace_stub_fail(call, 1, code);
    --handles_told_to_fail_;
    EXPECT_THAT(open_file(file.number(), &file_).text, HasSubstr("for a probe read"));
  }
  EXPECT_EQ(feedrace_stub_memory_in_use(), 0U);
}

}  // namespace
}  // namespace feedrace::cuda
