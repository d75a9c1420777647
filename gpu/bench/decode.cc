// SPDX-License-Identifier: Apache-2.0
// nvJPEG by itself: pictures a second of the hardware engine, of the device's cores, and of both.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/cuda/test_jpegs.h"
#include "feedrace/testing/temp_dir.h"

#include "gpu/bench/report.h"

namespace feedrace::gpu {
namespace {

using cuda::Batch;
using cuda::Bytes;

std::vector<Bytes> read_pictures(const std::string& folder, std::size_t count) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> pictures;
  for (const std::string& path : paths) {
    const std::string content = testing::read_file(path);
    const auto* begin = reinterpret_cast<const std::byte*>(content.data());
    // By their first bytes: a folder may hold lists and other kinds of pictures beside.
    if (!content.starts_with("\xFF\xD8\xFF")) continue;
    pictures.emplace_back(begin, begin + content.size());
    if (pictures.size() == count) break;
  }
  if (pictures.empty()) {
    throw Error(ErrorCode::kNotFound,
                folder + ": no JPEG in it; give a folder of class folders of JPEGs");
  }
  return pictures;
}

double mean_difference(Batch& batch, std::size_t i) {
  const std::vector<std::uint8_t> came = batch.read(i);
  const std::vector<std::uint8_t>& wanted = batch.expected[i].rgb;
  double sum = 0;
  for (std::size_t v = 0; v < came.size(); ++v) sum += std::abs(int{came[v]} - int{wanted[v]});
  return sum / static_cast<double>(came.size());
}

/// The worst of a few that were decoded, so that each way is looked at before it is timed.
bool is_right(Batch& batch, const std::string& name) {
  double worst = 0;
  std::size_t decoded = 0;
  std::size_t compared = 0;
  for (std::size_t i = 0; i < batch.jpegs.size(); ++i) {
    if (batch.jpegs[i].status != FEEDRACE_CUDA_OK) continue;
    ++decoded;
    if (compared++ < 16) worst = std::max(worst, mean_difference(batch, i));
  }
  const bool is_good = decoded > 0 && worst <= 2;
  print_check(
      name + ".output", is_good,
      fmt::format("{} of {} decoded, mean difference from libjpeg-turbo up to {:.2f} levels",
                  decoded, batch.jpegs.size(), worst));
  return is_good;
}

void measure(const std::shared_ptr<cuda::Device>& device, Batch& batch, const std::string& name,
             double share, const BenchOptions& options) {
  std::uint32_t width_px = 1;
  std::uint32_t height_px = 1;
  for (const auto& picture : batch.expected) {
    width_px = std::max(width_px, picture.width_px);
    height_px = std::max(height_px, picture.height_px);
  }
  cuda::Decoder decoder(
      device, {share, 0, static_cast<std::uint32_t>(batch.jpegs.size()), width_px, height_px});
  cuda::require(decoder.status, decoder.error);
  cuda::require(decoder.decode(batch.jpegs, batch.stream), decoder.error);
  batch.wait();
  if (share > 0 && batch.count(cuda::kHardware) == 0) {
    print_skip(name, "the hardware engine took no picture: this GPU or driver has none");
    return;
  }
  if (!is_right(batch, name)) return;
  std::vector<double> images_s;
  for (int run = 0; run < (options.is_quick ? 2 : 15); ++run) {
    const auto begin = std::chrono::steady_clock::now();
    cuda::require(decoder.decode(batch.jpegs, batch.stream), decoder.error);
    batch.wait();
    const std::size_t decoded = batch.count(cuda::kHardware) + batch.count(cuda::kSoftware);
    images_s.push_back(static_cast<double>(decoded) / seconds_since(begin));
  }
  print_figure(name, "images/s", images_s);
}

}  // namespace

void bench_decode(const BenchOptions& options) {
  const auto device = open_device();
  Batch batch(device, read_pictures(options.pictures, options.is_quick ? 8 : options.batch_size));
  measure(device, batch, "decode.software", 0, options);
  measure(device, batch, "decode.hardware", 1, options);
  measure(device, batch, "decode.both", 0.65, options);
}

}  // namespace feedrace::gpu
