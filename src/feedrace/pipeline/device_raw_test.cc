// SPDX-License-Identifier: Apache-2.0
// Raw samples that go to a GPU: through the host's memory, and past it by cuFile; on the stub
// libraries.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/cuda/test_stubs.h"
#include "feedrace/pipeline/test_arrays.h"

namespace feedrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t kColumns = 3000;  // 24 kB a sample.

class DeviceRaw : public cuda::OnStubs {
 protected:
  DeviceRaw() {
    system_.write("proc/modules", "");
    std::filesystem::create_directories(system_.path() / "run/udev");
    std::filesystem::create_directories(system_.path() / "dev");
  }
  ~DeviceRaw() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
  }

  void stub(const std::string& name, const std::string& value) {
    set_.push_back("FEEDRACE_STUB_CUFILE_" + name);
    setenv(set_.back().c_str(), value.c_str(), 1);
  }
  LoaderOptions options(const std::string& source) const {
    LoaderOptions options = raw_options(source);
    options.shuffle = Shuffle::kGlobal;
    options.last_batch = LastBatch::kPartial;
    options.device = "cuda";
    options.backend = "cufile";
    options.cuda_plugin = {FEEDRACE_BUILT_PLUGIN};
    options.cuda_libraries = {FEEDRACE_STUB_FOLDER};
    options.system_root = system_.path().string();
    return options;
  }
  static std::vector<Seen> on_host(LoaderOptions options) {
    options.device = "cpu";
    options.backend = "buffered";
    Loader loader(options);
    return load_epoch(loader);
  }
  static Seen remember_on_device(const Batch& batch) {
    std::vector<std::byte> images(batch.images.size_bytes());
    std::vector<std::int64_t> labels(batch.size());
    batch.on_device->read(batch.images, images.data());
    batch.on_device->read(batch.labels, reinterpret_cast<std::byte*>(labels.data()));
    Batch copy = batch;
    copy.images.data = images.data();
    copy.labels.data = labels.data();
    return remember(copy);
  }
  static std::vector<Seen> load_device_epoch(Loader& loader) {
    std::vector<Seen> epoch;
    while (const auto batch = loader.next()) epoch.push_back(remember_on_device(*batch));
    return epoch;
  }
  static std::string refusal(const LoaderOptions& options) {
    try {
      Loader loader(options);
      while (loader.next()) {
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  }
  static std::uint64_t bytes_by(const Loader& loader, Path path) {
    return loader.stats().bytes_by_path[static_cast<std::size_t>(path)];
  }

  const testing::TempDir system_;
  const testing::TempDir dir_;
  std::vector<std::string> set_;
};

TEST_F(DeviceRaw, ThroughTheHostGivesTheBatchesOfTheHost) {
  LoaderOptions wanted = options(write_array_shards(dir_, 40, kColumns));
  wanted.backend = "buffered";
  Loader loader(wanted);
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
}

TEST_F(DeviceRaw, ByCuFileGivesTheBatchesOfTheHost) {
  feedrace_stub_set_delay_us(200);
  for (const std::string& source :
       {write_array_folder(dir_, 44, kColumns), write_array_shards(dir_, 44, kColumns)}) {
    const LoaderOptions wanted = options(source);
    const std::vector<Seen> expected = on_host(wanted);
    Loader loader(wanted);
    EXPECT_EQ(loader.plan().backend, "cufile");
    EXPECT_THAT(loader.plan().backend_reason, HasSubstr("buffers on the GPU"));
    EXPECT_EQ(load_device_epoch(loader), expected);
    EXPECT_EQ(load_device_epoch(loader), [&] {
      LoaderOptions second = wanted;
      second.device = "cpu";
      second.backend = "buffered";
      Loader host(second);
      host.set_epoch(1);
      return load_epoch(host);
    }());
    EXPECT_GE(bytes_by(loader, Path::kGds), 2 * 44 * 2 * kColumns * sizeof(float));
    EXPECT_EQ(bytes_by(loader, Path::kPageCache), 0U);
    EXPECT_EQ(bytes_by(loader, Path::kGdsCompat), 0U);
    EXPECT_EQ(loader.stats().copies_per_byte(), 0);
    EXPECT_THAT(loader.stats().fallbacks, IsEmpty());
  }
}

TEST_F(DeviceRaw, ByCuFileMayBeOfManyMegabytesOrHaveNoHeader) {
  constexpr std::size_t kMany = 300'003;  // 2.4 MB.
  LoaderOptions wanted = options(write_array_shards(dir_, 6, kMany));
  wanted.batch_size = 2;
  Loader large(wanted);
  EXPECT_EQ(load_device_epoch(large), on_host(wanted));
  for (int i = 0; i < 12; ++i) {
    dir_.write(fmt::format("plain/c{}/{}.bin", i % kTestClasses, test_key(i)),
               test_numbers(i, kColumns));
  }
  wanted = options(dir_ / "plain");
  wanted.pipeline.raw = {RawSamples::Form::kPlain, DType::kFloat32,
                         std::vector<std::int64_t>{kColumns}};
  Loader plain(wanted);
  EXPECT_EQ(load_device_epoch(plain), on_host(wanted));
}

TEST_F(DeviceRaw, CountsWhatCuFileCopiesOrRefusesIt) {
  stub("PATH", "compat");
  LoaderOptions wanted = options(write_array_shards(dir_, 16, kColumns));
  {
    Loader loader(wanted);
    EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
    EXPECT_EQ(bytes_by(loader, Path::kGds), 0U);
    EXPECT_GT(bytes_by(loader, Path::kGdsCompat), 0U);
    EXPECT_GT(loader.stats().copies_per_byte(), 0);
    ASSERT_THAT(loader.stats().fallbacks, SizeIs(1));
    EXPECT_THAT(loader.stats().fallbacks[0].sentence, HasSubstr("compatibility mode"));
  }
  wanted.fallback = Fallback::kError;
  wanted.on_error = OnError::kReplace;  // No sample is at fault.
  EXPECT_THAT(refusal(wanted), HasSubstr("0.tar"));
}

TEST_F(DeviceRaw, BadSamplesAreReplacedBlankedOrRaised) {
  LoaderOptions wanted = options(write_array_folder(dir_, 24, kColumns));
  dir_.write("arrays/c1/004.npy", testing::npy("<f2", "2, 3", std::string(12, 'x')));
  dir_.write("arrays/c1/007.npy", test_array(7, 100 * kColumns));  // Larger than a buffer.
  dir_.write("arrays/c2/008.npy", test_jpeg(8));
  dir_.write("arrays/c2/011.npy", "");
  wanted.on_error = OnError::kReplace;
  {
    Loader loader(wanted);
    EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
    EXPECT_EQ(loader.stats().substituted_samples, 4U);
    EXPECT_GT(bytes_by(loader, Path::kPageCache), 0U);  // The stand-ins.
  }
  wanted.on_error = OnError::kZero;
  {
    Loader loader(wanted);
    EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
    EXPECT_EQ(loader.stats().blanked_samples, 4U);
  }
  wanted.on_error = OnError::kRaise;
  wanted.shuffle = Shuffle::kNone;
  EXPECT_THAT(refusal(wanted), AllOf(HasSubstr("004.npy"), HasSubstr("must be float32 [2, 3000]")));
}

TEST_F(DeviceRaw, ReadsThatFailAreBadSamples) {
  LoaderOptions wanted = options(write_array_folder(dir_, 24, kColumns));
  wanted.on_error = OnError::kReplace;
  Loader loader(wanted);
  feedrace_stub_fail("cuFileRead", 5, EIO);
  std::size_t samples = 0;
  while (const auto batch = loader.next()) samples += batch->size();
  EXPECT_EQ(samples, 24U);
  EXPECT_EQ(loader.stats().substituted_samples, 1U);
}

TEST_F(DeviceRaw, ShortReadsAreCompleted) {
  stub("MOST_BYTES", "9000");
  const LoaderOptions wanted = options(write_array_shards(dir_, 16, kColumns));
  Loader loader(wanted);
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
}

TEST_F(DeviceRaw, KeepsWhatTheConsumerKeepsAndBatchesOutliveIt) {
  feedrace_stub_set_delay_us(200);
  const LoaderOptions wanted = options(write_array_shards(dir_, 64, kColumns));
  const std::vector<Seen> expected = on_host(wanted);
  std::vector<Batch> kept;
  {
    Loader loader(wanted);
    while (auto batch = loader.next()) {
      batch->on_device->hand_over(0);
      kept.push_back(*std::move(batch));
    }
  }
  ASSERT_EQ(kept.size(), expected.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(remember_on_device(kept[i]), expected[i]) << i;
  }
}

TEST_F(DeviceRaw, GoesOnBehindAPauseAndAState) {
  const LoaderOptions wanted = options(write_array_shards(dir_, 40, kColumns));
  const std::vector<Seen> expected = on_host(wanted);
  Loader first(wanted);
  EXPECT_EQ(remember_on_device(*first.next()), expected[0]);
  first.pause();
  EXPECT_EQ(remember_on_device(*first.next()), expected[1]);
  Loader second(wanted);
  second.load_state(first.state());
  EXPECT_EQ(remember_on_device(*second.next()), expected[2]);
}

TEST_F(DeviceRaw, EndsInTheMiddleOfReads) {
  const LoaderOptions wanted = options(write_array_shards(dir_, 64, kColumns));
  {
    Loader never(wanted);
  }
  {
    Loader left(wanted);
    EXPECT_TRUE(left.next());
  }
  Loader cancelled(wanted);
  EXPECT_TRUE(cancelled.next());
  std::thread([&] { cancelled.cancel(); }).join();
  EXPECT_THROW(cancelled.next(), Error);
}

TEST_F(DeviceRaw, ServesTwoDevices) {
  feedrace_stub_set_devices(2);
  LoaderOptions wanted = options(write_array_shards(dir_, 24, kColumns));
  const std::vector<Seen> expected = on_host(wanted);
  Loader first(wanted);
  wanted.device = "cuda:1";
  Loader second(wanted);
  std::vector<Seen> seen[2];
  while (true) {
    const auto one = first.next();
    const auto other = second.next();
    if (!one || !other) break;
    EXPECT_EQ(one->images.device, 0);
    EXPECT_EQ(other->images.device, 1);
    seen[0].push_back(remember_on_device(*one));
    seen[1].push_back(remember_on_device(*other));
  }
  EXPECT_EQ(seen[0], expected);
  EXPECT_EQ(seen[1], expected);
}

TEST_F(DeviceRaw, ByCuFileNeedsRawSamplesOnAGpu) {
  const LoaderOptions good = options(write_array_shards(dir_, 8, kColumns));
  const auto refusal_with = [&](auto change) {
    LoaderOptions wanted = good;
    change(wanted);
    return refusal(wanted);
  };
  EXPECT_EQ(refusal(good), "taken");
  EXPECT_THAT(refusal_with([](LoaderOptions& o) { o.pipeline = Pipeline::recipe("read"); }),
              HasSubstr("recipe \"raw\""));
  EXPECT_THAT(refusal_with([](LoaderOptions& o) { o.device = "cpu"; }),
              HasSubstr("device=\"cuda\""));
  EXPECT_THAT(refusal_with([](LoaderOptions& o) { o.fields = {"txt"}; }), HasSubstr("fields"));
  EXPECT_THAT(refusal_with([](LoaderOptions& o) { o.shared_cache.emplace(); }),
              HasSubstr("shared_cache"));
  EXPECT_THAT(refusal_with([](LoaderOptions& o) { o.page_cache = PageCache::kKeep; }),
              HasSubstr("page_cache"));
  EXPECT_THAT(refusal_with([](LoaderOptions& o) { o.iopoll = true; }), HasSubstr("iopoll"));
  EXPECT_THAT(refusal_with([&](LoaderOptions& o) { o.system_root = dir_.path().string(); }),
              AllOf(HasSubstr("\"cufile\" can't be had"), HasSubstr("/proc/modules")));
  feedrace_stub_set_devices(0);
  EXPECT_THAT(refusal_with([](LoaderOptions& o) { o.device = "auto"; }),
              AllOf(HasSubstr("\"cufile\" can't be had"), HasSubstr("no GPU can be used")));
}

TEST_F(DeviceRaw, ADeviceThatFailsIsAnErrorAndNoHang) {
  const LoaderOptions wanted = options(write_array_shards(dir_, 40, kColumns));
  for (const char* call : {"cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemAlloc_v2",
                           "cuEventRecord", "cuMemcpyHtoDAsync_v2"}) {
    {
      Loader loader(wanted);
      feedrace_stub_fail(call, 0, 700);
      try {
        while (loader.next()) {
        }
        ADD_FAILURE() << call;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << call;
        EXPECT_THAT(error.what(), HasSubstr("700"));
      }
      feedrace_stub_reset();
    }
  }
}

TEST_F(DeviceRaw, MemoryThatTheDeviceHasNotIsAnErrorWithTheSizes) {
  const LoaderOptions wanted = options(write_array_shards(dir_, 40, kColumns));
  Loader loader(wanted);
  feedrace_stub_set_memory(50'000);
  try {
    loader.next();
    FAIL() << "no memory, yet a batch";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("of 50000 free"));
  }
}

TEST_F(DeviceRaw, HeadersGoThroughPageableMemoryWhereItCanNotBePinned) {
  const LoaderOptions wanted = options(write_array_shards(dir_, 24, kColumns));
  feedrace_stub_fail("cuMemHostRegister_v2", 0, 2);
  Loader loader(wanted);
  EXPECT_EQ(load_device_epoch(loader), on_host(wanted));
  EXPECT_THAT(loader.stats().fallbacks, SizeIs(2));  // Headers, and batch slots.
}

}  // namespace
}  // namespace feedrace::pipeline
