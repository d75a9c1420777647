// SPDX-License-Identifier: Apache-2.0
// The whole loader, from files to batches on the device, and the pictures that it reads.
#include "feedrace/loader.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/testing/images.h"
#include "feedrace/testing/npy.h"

#include "gpu/bench/report.h"

namespace feedrace::gpu {
namespace {

LoaderOptions loader_options(const BenchOptions& options) {
  LoaderOptions made;
  made.sources = {options.pictures};
  made.pipeline = Pipeline::recipe("imagenet-train");
  made.batch_size = options.is_quick ? 8 : options.batch_size;
  made.device = "cuda";
  made.backend = options.backend;
  made.cuda_plugin = places().plugin;
  made.cuda_libraries = places().libraries;
  return made;
}

/// The first batches, as bytes, against those of a loader that keeps to the host.
void check_output(const BenchOptions& options) {
  LoaderOptions wanted = loader_options(options);
  wanted.batch_size = 8;
  wanted.pipeline.dtype = DType::kUint8;
  wanted.pipeline.mean = wanted.pipeline.std = {};
  Loader on_gpu(wanted);
  wanted.device = "cpu";
  wanted.backend = "auto";
  Loader on_host(wanted);
  bool is_same = true;
  double sum = 0;
  double count = 0;
  for (int i = 0; i < 2; ++i) {
    const auto a = on_gpu.next();
    const auto b = on_host.next();
    if (!a || !b) break;
    is_same = is_same && std::equal(a->indices.begin(), a->indices.end(), b->indices.begin(),
                                    b->indices.end());
    std::vector<std::uint8_t> came(a->images.size_bytes());
    a->on_device->read(a->images, reinterpret_cast<std::byte*>(came.data()));
    const auto* expected = static_cast<const std::uint8_t*>(b->images.data);
    for (std::size_t v = 0; v < came.size(); ++v) sum += std::abs(int{came[v]} - int{expected[v]});
    count += static_cast<double>(came.size());
  }
  print_check(
      "loader.output", is_same && count > 0 && sum / count <= 2,
      fmt::format("the same samples as on the CPU: {}, mean difference {:.2f} levels of 255",
                  is_same, sum / std::max(count, 1.0)));
}

/// What the GPU's stream waits for: the time between the end of what it did with a batch, here
/// nothing, and the moment the next one is there.
class Consumer {
 public:
  explicit Consumer(const LoaderOptions& options)
      : device_(open_device()), stream_(device_), loader_(options) {}

  std::size_t take() {
    auto batch = loader_.next();
    if (!batch) batch = loader_.next();  // An epoch ended.
    if (!batch)
      throw Error(ErrorCode::kInvalidArgument, "the data has not one whole batch; give more");
    batch->on_device->hand_over(stream_.handle());
    const std::size_t count = batch->size();
    kept_ = *std::move(batch);
    return count;
  }
  void finish_all() { finish(device_, stream_); }
  const Loader& loader() const { return loader_; }

 private:
  const std::shared_ptr<cuda::Device> device_;
  cuda::Stream stream_;
  Loader loader_;
  Batch kept_;
};

double images_a_second(Consumer& consumer, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  std::size_t images = 0;
  while (seconds_since(begin) < seconds) images += consumer.take();
  consumer.finish_all();
  return static_cast<double>(images) / seconds_since(begin);
}

}  // namespace

void bench_loader(const BenchOptions& options) {
  check_output(options);
  Consumer consumer(loader_options(options));
  images_a_second(consumer, options.seconds / 5);
  constexpr int kRuns = 4;
  std::vector<double> images_s;
  for (int run = 0; run < kRuns; ++run) {
    images_s.push_back(images_a_second(consumer, options.seconds / 5));
  }
  print_figure("loader.images", "images/s", images_s);
  const Stats stats = consumer.loader().stats();
  for (const StageStats& stage : stats.stages) {
    if (stage.name != "consumer") continue;
    const double all = stage.busy_seconds + stage.wait_seconds;
    if (all > 0)
      print_figure("loader.consumer_wait", "% of the time", {100 * stage.wait_seconds / all});
  }
  if (stats.device) {
    const DeviceStats& on = *stats.device;
    print_figure("loader.decoded_by_hardware", "pictures", {double(on.hardware_decoded)});
    print_figure("loader.decoded_by_software", "pictures", {double(on.software_decoded)});
    print_figure("loader.decoded_on_host", "pictures", {double(on.host_decoded)});
    print_figure("loader.already_decoded", "pictures", {double(on.already_decoded)});
    const double batches = std::max(1.0, static_cast<double>(stats.batches));
    print_figure("loader.copied", "MB a batch", {1e-6 * double(on.copied_bytes) / batches});
  }
  const Plan& plan = consumer.loader().plan();
  print_check(
      "loader.plan", plan.device.starts_with("cuda"),
      fmt::format("device {}, decoded on {}{}, {} threads on {} cores", plan.device,
                  plan.decode_device,
                  plan.decode_device_reason.empty() ? "" : " (" + plan.decode_device_reason + ")",
                  plan.decode_threads, plan.usable_cores));
  for (const FallbackCount& fallback : stats.fallbacks) {
    print_skip("loader.wanted", fmt::format("{} times: {}", fallback.count, fallback.sentence));
  }
}

namespace {

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(content.data(), 1, content.size(), file) != content.size() ||
      std::fclose(file) != 0) {
    throw Error(ErrorCode::kIo, path.string() + ": it could not be written; check the space there");
  }
}

/// Pixels of a picture, as `feedrace pack --raw` stores them.
std::string decoded_picture(std::uint32_t width_px, std::uint32_t height_px, std::uint32_t seed) {
  std::string values(std::size_t{3} * width_px * height_px, '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<char>((i / 3 + i / (std::size_t{3} * width_px) * 5 + seed * 37) % 256);
  }
  return testing::npy("|u1", fmt::format("{}, {}, 3", height_px, width_px), values);
}

}  // namespace

void write_decoded_shards(const BenchOptions& options) {
  // A photo of 4 : 3 with its shorter side at 256, a quarter of them upright.
  constexpr std::size_t kOfShard = 250;
  const std::uint32_t shorter_px = options.is_quick ? 64 : 256;
  const std::uint32_t longer_px = shorter_px * 4 / 3;
  std::filesystem::create_directories(options.pictures);
  for (std::size_t begin = 0; begin < options.count; begin += kOfShard) {
    std::string tar;
    for (std::size_t i = begin; i < std::min(options.count, begin + kOfShard); ++i) {
      const auto seed = static_cast<std::uint32_t>(i);
      tar += testing::tar_member(fmt::format("{:05}.npy", i),
                                 i % 4 == 0 ? decoded_picture(shorter_px, longer_px, seed)
                                            : decoded_picture(longer_px, shorter_px, seed));
      tar += testing::tar_member(fmt::format("{:05}.cls", i), std::to_string(i % 10));
    }
    write_file(std::filesystem::path(options.pictures) / fmt::format("{:03}.tar", begin / kOfShard),
               tar + testing::tar_end());
  }
}

void write_pictures(const BenchOptions& options) {
  // ImageNet's are 500 x 375 most often, 400 to 500 wide, a quarter of them upright.
  for (std::size_t i = 0; i < options.count; ++i) {
    const std::filesystem::path folder =
        std::filesystem::path(options.pictures) / fmt::format("class{:02}", i % 10);
    std::filesystem::create_directories(folder);
    const auto seed = static_cast<std::uint32_t>(i);
    const std::uint32_t width_px = options.is_quick ? 120 : 500 - seed % 5 * 20;
    const std::uint32_t height_px = options.is_quick ? 90 : 375 + seed % 4 * 20;
    const std::string jpeg = i % 4 == 0 ? testing::make_jpeg(height_px, width_px, seed)
                                        : testing::make_jpeg(width_px, height_px, seed);
    write_file(folder / fmt::format("{:05}.jpg", i), jpeg);
  }
}

}  // namespace feedrace::gpu
