// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/op.h"
#include "feedrace/tensor.h"

namespace feedrace {

enum class Orientation : std::uint8_t {
  kKeep,     ///< As stored, as torchvision and Pillow do.
  kUpright,  ///< Turned by the EXIF tag.
};

struct RandomResizedCrop {
  std::uint32_t size_px = 224;                       ///< Height and width of the output.
  std::array<double, 2> scale = {0.08, 1.0};         ///< Share of the picture's area.
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};  ///< Width by height.
};

/// Resize the shorter side, then cut the middle: torchvision's Resize + CenterCrop.
struct ResizeCenterCrop {
  std::uint32_t resize_px = 256;
  std::uint32_t crop_px = 224;
};

/// What happens to one sample, as plain data: decode, one geometry, flip, own ops, normalise.
/// Checked by `Pipeline::check()` before any thread starts. The decoder, the geometry, the flip and
/// the normalisation are fused into one pass that writes the batch once; `ops` are not.
struct Pipeline {
  /// Nothing is decoded: samples are read and dropped, and batches have labels, indices and flags,
  /// but images of 0 x 0 pixels. What storage alone can give; goes with nothing below.
  bool reads_only = false;
  Orientation orientation = Orientation::kKeep;
  std::optional<RandomResizedCrop> random_resized_crop;
  std::optional<ResizeCenterCrop> resize_center_crop;
  double flip_probability = 0;                      ///< Left to right.
  std::vector<std::shared_ptr<const ops::Op>> ops;  ///< Between flip and normalisation.
  std::vector<float> mean;                          ///< Of values in [0, 1]; empty: not normalised.
  std::vector<float> std;
  DType dtype = DType::kFloat16;  ///< kUint8 goes without mean and std.
  Layout layout = Layout::kChw;

  /// "imagenet-train": random resized crop 224 (0.08 to 1, 3/4 to 4/3), flip 0.5, ImageNet mean and
  /// std, float16 CHW. "imagenet-val": resize 256, centre crop 224, the same tensor. "read": see
  /// `reads_only`.
  /// Throws Error kInvalidArgument with the known names.
  static Pipeline recipe(std::string_view name);
  static std::vector<std::string> recipe_names();

  /// Throws Error kInvalidArgument: no or two geometries, something to do with pictures that are
  /// not decoded, a size of 0, a share or ratio out of order, mean or std not of length 3, a std
  /// that is 0 or not finite, mean with kUint8.
  void check() const;
  /// Height and width of the output. Call after `check()`.
  ops::ImageSize output_size() const;
  /// One line: "decode > random_resized_crop 224 > flip 0.5 > normalize > float16 CHW".
  std::string describe() const;
};

}  // namespace feedrace
