// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pictures for nvJPEG, and what libjpeg-turbo makes of them, on whatever device.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/cuda/plugin_loader.h"
#include "feedrace/decode/test_pictures.h"

namespace feedrace::cuda {

using decode::Region;
using decode::testing::Bytes;
using decode::testing::JpegOptions;
using decode::testing::make_jpeg;
using decode::testing::make_pixels;

constexpr int kHardware = FEEDRACE_CUDA_ENGINE_HARDWARE;
constexpr int kSoftware = FEEDRACE_CUDA_ENGINE_SOFTWARE;

struct Image {
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
  std::vector<std::uint8_t> rgb;
};

/// What libjpeg-turbo makes of it.
inline Image decode_on_cpu(const Bytes& jpeg) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  Image image{info.output_width, info.output_height, {}};
  image.rgb.resize(std::size_t{3} * image.width_px * image.height_px);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.rgb.data() + std::size_t{3} * image.width_px * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_destroy_decompress(&info);
  return image;
}

inline Bytes baseline(std::uint32_t width_px = 64, std::uint32_t height_px = 48,
                      std::uint64_t seed = 1) {
  return make_jpeg(make_pixels(width_px, height_px, 3, seed));
}

inline Bytes progressive(std::uint64_t seed = 1) {
  JpegOptions options;
  options.progressive = true;
  return make_jpeg(make_pixels(61, 47, 3, seed), options);
}

/// A decoder of the table, closed in the end.
class Decoder {
 public:
  Decoder(std::shared_ptr<Device> device, const feedrace_cuda_decoder_options& options)
      : device_(std::move(device)) {
    status = device_->table().open_decoder(device_->handle(), &options, &decoder_, &error);
  }
  ~Decoder() { close(); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  void close() {
    if (decoder_ != nullptr) device_->table().close_decoder(decoder_);
    decoder_ = nullptr;
  }

  int decode(std::vector<feedrace_cuda_jpeg>& jpegs, const Stream& stream) {
    return device_->table().decode(decoder_, jpegs.data(), static_cast<std::uint32_t>(jpegs.size()),
                                   stream.handle(), &error);
  }

  const feedrace_cuda_decoder* handle() const { return decoder_; }

  int status = FEEDRACE_CUDA_OK;
  feedrace_cuda_error error{};

 private:
  std::shared_ptr<Device> device_;
  feedrace_cuda_decoder* decoder_ = nullptr;
};

inline feedrace_cuda_decoder_options options_of(double share) { return {share, 0, 64, 320, 240}; }

/// Pictures, and room on the device for what they become: rows with gaps between them.
class Batch {
 public:
  static constexpr std::size_t kGapBytes = 5;

  Batch(std::shared_ptr<Device> device, std::vector<Bytes> pictures)
      : encoded(std::move(pictures)), device_(std::move(device)), stream(device_) {
    for (const Bytes& picture : encoded) {
      expected.push_back(decode_on_cpu(picture));
      add(picture, {0, 0, expected.back().width_px, expected.back().height_px});
    }
  }

  /// Wants only this of picture i.
  void want(std::size_t i, const Region& region) {
    expected[i].rgb = decode::testing::cut(expected[i].rgb, expected[i].width_px, region);
    expected[i].width_px = region.width_px;
    expected[i].height_px = region.height_px;
    feedrace_cuda_jpeg& jpeg = jpegs[i];
    jpeg.region_x_px = region.x_px;
    jpeg.region_y_px = region.y_px;
    jpeg.output.width_px = region.width_px;
    jpeg.output.height_px = region.height_px;
  }

  /// A picture that no decoder takes; room for 16 x 16 pixels.
  void add_bad(Bytes picture) {
    bad.push_back(std::make_unique<Bytes>(std::move(picture)));
    add(*bad.back(), {0, 0, 16, 16});
    expected.push_back({});
  }

  void put_on_device() {
    for (feedrace_cuda_jpeg& jpeg : jpegs) {
      copies.emplace_back(device_, jpeg.size_bytes);
      stream.copy_to_device(copies.back().address(), jpeg.bytes, jpeg.size_bytes);
      jpeg.device_bytes = copies.back().address();
    }
    wait();
  }

  /// Picture i as the stream's next reader finds it.
  std::vector<std::uint8_t> read(std::size_t i) {
    const feedrace_cuda_picture& output = jpegs[i].output;
    const auto row_bytes = static_cast<std::size_t>(output.row_bytes);
    std::vector<std::uint8_t> rows(row_bytes * output.height_px);
    stream.copy_to_host(rows.data(), output.address, rows.size());
    wait();
    std::vector<std::uint8_t> rgb;
    for (std::size_t y = 0; y < output.height_px; ++y) {
      const auto row = rows.begin() + static_cast<std::ptrdiff_t>(y * row_bytes);
      rgb.insert(rgb.end(), row, row + std::ptrdiff_t{3} * output.width_px);
    }
    return rgb;
  }

  void expect_pixels() {
    for (std::size_t i = 0; i < jpegs.size(); ++i) {
      if (jpegs[i].status == FEEDRACE_CUDA_OK) {
        EXPECT_NE(jpegs[i].engine, FEEDRACE_CUDA_ENGINE_NONE) << "picture " << i;
        EXPECT_TRUE(read(i) == expected[i].rgb) << "picture " << i;
      } else {
        EXPECT_EQ(jpegs[i].engine, FEEDRACE_CUDA_ENGINE_NONE) << "picture " << i;
      }
    }
  }

  std::vector<int> statuses() const {
    std::vector<int> all;
    for (const feedrace_cuda_jpeg& jpeg : jpegs) all.push_back(jpeg.status);
    return all;
  }
  std::vector<int> engines() const {
    std::vector<int> all;
    for (const feedrace_cuda_jpeg& jpeg : jpegs) all.push_back(jpeg.engine);
    return all;
  }
  std::size_t count(int engine) const {
    const std::vector<int> all = engines();
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), engine));
  }

  void wait() {
    Event done(device_);
    done.record(stream.handle());
    done.wait();
  }

  std::vector<Bytes> encoded;
  std::vector<std::unique_ptr<Bytes>> bad;
  std::vector<Image> expected;
  std::vector<feedrace_cuda_jpeg> jpegs;
  std::vector<DeviceMemory> outputs;
  std::vector<DeviceMemory> copies;

 private:
  void add(const Bytes& picture, const Region& region) {
    const std::size_t row_bytes = std::size_t{3} * region.width_px + kGapBytes;
    outputs.emplace_back(device_, row_bytes * region.height_px);
    feedrace_cuda_jpeg jpeg{};
    jpeg.bytes = picture.data();
    jpeg.size_bytes = picture.size();
    jpeg.output = {outputs.back().address(), static_cast<std::int64_t>(row_bytes), region.width_px,
                   region.height_px};
    jpeg.status = -1;
    jpeg.engine = -1;
    jpegs.push_back(jpeg);
  }

  std::shared_ptr<Device> device_;

 public:
  Stream stream;  // Ends first, with all that is on it.
};

/// Of every kind that nvJPEG takes.
inline std::vector<Bytes> all_kinds() {
  JpegOptions scans;
  scans.separate_scans = true;
  JpegOptions full;
  full.luma_sampling = {1, 1};
  JpegOptions narrow;  // 4:1:1
  narrow.luma_sampling = {4, 1};
  JpegOptions grey;
  grey.luma_sampling = {1, 1};
  grey.stored_as = JCS_GRAYSCALE;
  return {baseline(),
          progressive(),
          make_jpeg(make_pixels(33, 31), scans),
          make_jpeg(make_pixels(200, 120), full),
          make_jpeg(make_pixels(64, 40), narrow),
          make_jpeg(make_pixels(37, 50, 1), grey),
          baseline(1, 1),
          baseline(320, 240, 5)};
}

}  // namespace feedrace::cuda
