// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/contact_sheet.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "feedrace/ops/half.h"
#include "feedrace/tools/array_file.h"

namespace feedrace::tools {
namespace {

constexpr std::size_t kChannels = 3;

/// One picture of a tensor.
struct Picture {
  const void* data = nullptr;
  DType dtype = DType::kUint8;
  bool is_chw = true;
  std::size_t height_px = 0;
  std::size_t width_px = 0;
  std::vector<float> mean;  ///< Of values in [0, 1]; empty: not normalised.
  std::vector<float> std;

  double value(std::size_t channel, std::size_t y, std::size_t x) const {
    const std::size_t at = is_chw ? (channel * height_px + y) * width_px + x
                                  : (y * width_px + x) * kChannels + channel;
    switch (dtype) {
      case DType::kFloat16:
        return ops::float_from_half(static_cast<const std::uint16_t*>(data)[at]);
      case DType::kFloat32:
        return static_cast<const float*>(data)[at];
      default:
        return static_cast<const std::uint8_t*>(data)[at];
    }
  }

  std::uint8_t level(double value, std::size_t channel) const {
    if (dtype != DType::kUint8) {
      if (!mean.empty()) {
        value = value * static_cast<double>(std[channel]) + static_cast<double>(mean[channel]);
      }
      value *= 255;
    }
    return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0) + 0.5);
  }
};

/// The mean of the pixels under each pixel of the smaller picture.
std::vector<std::uint8_t> shrunk(const Picture& picture, std::size_t width_px,
                                 std::size_t height_px) {
  std::vector<std::uint8_t> rgb(width_px * height_px * kChannels);
  for (std::size_t y = 0; y < height_px; ++y) {
    const std::size_t top = y * picture.height_px / height_px;
    const std::size_t bottom = std::max(top + 1, (y + 1) * picture.height_px / height_px);
    for (std::size_t x = 0; x < width_px; ++x) {
      const std::size_t left = x * picture.width_px / width_px;
      const std::size_t right = std::max(left + 1, (x + 1) * picture.width_px / width_px);
      for (std::size_t c = 0; c < kChannels; ++c) {
        double sum = 0;
        for (std::size_t v = top; v < bottom; ++v) {
          for (std::size_t u = left; u < right; ++u) sum += picture.value(c, v, u);
        }
        const auto pixels = static_cast<double>((bottom - top) * (right - left));
        rgb[(y * width_px + x) * kChannels + c] = picture.level(sum / pixels, c);
      }
    }
  }
  return rgb;
}

view::Thumbnail thumbnail(const Picture& picture, std::size_t side_px, std::string caption) {
  const std::size_t longest = std::max(picture.width_px, picture.height_px);
  const std::size_t kept = std::min(side_px, longest);
  const std::size_t width_px = std::max<std::size_t>(1, picture.width_px * kept / longest);
  const std::size_t height_px = std::max<std::size_t>(1, picture.height_px * kept / longest);
  const std::vector<std::uint8_t> rgb = shrunk(picture, width_px, height_px);
  return {png_of(rgb.data(), static_cast<std::uint32_t>(width_px),
                 static_cast<std::uint32_t>(height_px)),
          std::move(caption)};
}

/// The `i`-th picture of a batch on the host; without data where it has none.
Picture picture_of(const Batch& batch, std::size_t i, bool is_chw) {
  Picture picture;
  picture.is_chw = is_chw;
  const bool is_ragged = !batch.image_list.empty();
  const Tensor& tensor = is_ragged ? batch.image_list[i] : batch.images;
  const std::size_t rank = is_ragged ? 3 : 4;
  if (tensor.shape.size() != rank || tensor.data == nullptr || batch.on_device) return picture;
  const std::size_t first = rank - 3;
  const auto size = [&](std::size_t axis) {
    return static_cast<std::size_t>(tensor.shape[first + axis]);
  };
  if (size(is_chw ? 0 : 2) != kChannels) return picture;
  picture.dtype = tensor.dtype;
  picture.height_px = size(is_chw ? 1 : 0);
  picture.width_px = size(is_chw ? 2 : 1);
  const std::size_t one_bytes =
      picture.height_px * picture.width_px * kChannels * size_of(tensor.dtype);
  picture.data = static_cast<const std::byte*>(tensor.data) + (is_ragged ? 0 : i * one_bytes);
  return picture;
}

std::string caption_of(const Batch& batch, std::size_t i, const std::vector<std::string>& classes) {
  const std::int64_t label = static_cast<const std::int64_t*>(batch.labels.data)[i];
  const bool is_named = label >= 0 && static_cast<std::size_t>(label) < classes.size();
  if (is_named) return classes[static_cast<std::size_t>(label)];
  return label >= 0 ? fmt::format("class {}", label) : fmt::format("sample {}", batch.indices[i]);
}

}  // namespace

std::vector<view::Thumbnail> thumbnails(const Batch& batch, const Pipeline& pipeline,
                                        const std::vector<std::string>& classes, std::size_t count,
                                        std::size_t side_px) {
  std::vector<view::Thumbnail> made;
  if (pipeline.raw || pipeline.reads_only) return made;
  for (std::size_t i = 0; i < std::min(count, batch.size()); ++i) {
    Picture picture = picture_of(batch, i, pipeline.layout == Layout::kChw);
    if (picture.data == nullptr || picture.width_px == 0 || picture.height_px == 0) break;
    picture.mean.assign(pipeline.mean.begin(), pipeline.mean.end());
    picture.std.assign(pipeline.std.begin(), pipeline.std.end());
    made.push_back(thumbnail(picture, side_px, caption_of(batch, i, classes)));
  }
  return made;
}

}  // namespace feedrace::tools
