// SPDX-License-Identifier: Apache-2.0
// How many pictures a second does one thread decode, as a whole and by the region of a random
// resized crop, and how does that compare with libjpeg's own cropping?
//
//   FEEDRACE_BENCH_DATA=/folder/of/jpegs build/release/bin/feedrace_decode_bench
//
// Without the variable one made-up picture of 500 x 375 pixels is used.

#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <benchmark/benchmark.h>

#include "feedrace/decode/image_decoder.h"
#include "feedrace/decode/test_pictures.h"

namespace feedrace::decode {
namespace {

using testing::Bytes;

struct Job {
  Bytes encoded;
  Region whole;
  Region crop;
};

/// The box of torchvision's RandomResizedCrop: 8 to 100 % of the area, 3/4 to 4/3 wide.
Region random_crop(SampleRandom& random, const Region& whole) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = random.uniform(0.08, 1.0) * whole.width_px * whole.height_px;
    const double ratio = std::exp(random.uniform(std::log(3.0 / 4), std::log(4.0 / 3)));
    const auto width = static_cast<std::uint32_t>(std::lround(std::sqrt(area * ratio)));
    const auto height = static_cast<std::uint32_t>(std::lround(std::sqrt(area / ratio)));
    if (width == 0 || height == 0 || width > whole.width_px || height > whole.height_px) continue;
    return {static_cast<std::uint32_t>(random.below(whole.width_px - width + 1)),
            static_cast<std::uint32_t>(random.below(whole.height_px - height + 1)), width, height};
  }
  return whole;
}

std::vector<Bytes> read_pictures() {
  const char* folder = getenv("FEEDRACE_BENCH_DATA");
  if (folder == nullptr) return {testing::make_jpeg(testing::make_pixels(500, 375))};
  std::vector<Bytes> pictures;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> content{std::istreambuf_iterator<char>(file), {}};
    const auto bytes = std::as_bytes(std::span(content));
    if (JpegDecoder().accepts(bytes)) pictures.emplace_back(bytes.begin(), bytes.end());
  }
  return pictures;
}

/// Jobs whose region decodes and equals the whole picture, cut: a fast wrong answer is no answer.
const std::vector<Job>& jobs() {
  static const std::vector<Job> kJobs = [] {
    std::vector<Job> checked;
    JpegDecoder decoder;
    SampleRandom random(1, 0, 0, 0);
    for (Bytes& encoded : read_pictures()) {
      const Result<ImageInfo> info = decoder.probe(encoded, {});
      if (!info || info->component_count == 4) continue;
      const Region crop = random_crop(random, info->whole());
      const auto whole = testing::decode_region(decoder, encoded, info->whole());
      const auto region = testing::decode_region(decoder, encoded, crop);
      if (!whole || !region || *region != testing::cut(*whole, info->width_px, crop)) continue;
      checked.push_back({std::move(encoded), info->whole(), crop});
    }
    return checked;
  }();
  return kJobs;
}

template <typename Decode>
void run(benchmark::State& state, Decode decode) {
  if (jobs().empty()) return state.SkipWithError("no picture in FEEDRACE_BENCH_DATA decodes");
  std::vector<std::uint8_t> rgb;
  for (const Job& job : jobs()) {
    rgb.resize(std::max(rgb.size(), std::size_t{job.whole.width_px} * job.whole.height_px * 3));
  }
  for (auto iteration : state) {
    for (const Job& job : jobs()) decode(job, rgb.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(jobs().size()));
}

void decode_ours(ImageDecoder& decoder, const Job& job, const Region& region, std::uint8_t* rgb) {
  Result<ImageInfo> info = decoder.open(job.encoded);
  Result<void> read = decoder.read_region(region, rgb, std::size_t{region.width_px} * 3);
  benchmark::DoNotOptimize(static_cast<bool>(read) && static_cast<bool>(info));
}

void BM_WholePicture(benchmark::State& state) {
  ImageDecoder decoder;
  run(state, [&](const Job& job, std::uint8_t* rgb) { decode_ours(decoder, job, job.whole, rgb); });
}
BENCHMARK(BM_WholePicture)->Unit(benchmark::kMillisecond);

void BM_RandomCrop(benchmark::State& state) {
  ImageDecoder decoder;
  run(state, [&](const Job& job, std::uint8_t* rgb) { decode_ours(decoder, job, job.crop, rgb); });
}
BENCHMARK(BM_RandomCrop)->Unit(benchmark::kMillisecond);

/// What a program gets that calls libjpeg itself: crop to block groups, skip, read, one decompress
/// object for all pictures. No margin, so its edge pixels may be off.
void BM_RandomCropByPlainLibjpeg(benchmark::State& state) {
  jpeg_decompress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&cinfo);
  run(state, [&](const Job& job, std::uint8_t* rgb) {
    jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(job.encoded.data()),
                 job.encoded.size());
    jpeg_read_header(&cinfo, TRUE);
    cinfo.out_color_space = JCS_RGB;
    jpeg_start_decompress(&cinfo);
    JDIMENSION x = job.crop.x_px;
    JDIMENSION width = job.crop.width_px;
    jpeg_crop_scanline(&cinfo, &x, &width);
    if (job.crop.y_px > 0) jpeg_skip_scanlines(&cinfo, job.crop.y_px);
    for (std::uint32_t y = 0; y < job.crop.height_px; ++y) {
      JSAMPROW row = rgb;
      jpeg_read_scanlines(&cinfo, &row, 1);
    }
    jpeg_abort_decompress(&cinfo);
  });
  jpeg_destroy_decompress(&cinfo);
}
BENCHMARK(BM_RandomCropByPlainLibjpeg)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace feedrace::decode
