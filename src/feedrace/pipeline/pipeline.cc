// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/error.h"
#include "feedrace/ops/convert.h"

namespace feedrace {
namespace {

// A side beyond this is a slip of the pen: 16,384 x 16,384 x 3 floats are 3.2 GB an image.
constexpr std::uint32_t kMaxOutputPx = 16384;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void check_size(const char* name, std::uint32_t size_px) {
  if (size_px == 0 || size_px > kMaxOutputPx) {
    refuse(fmt::format("{} is {} px; it must be from 1 to {}", name, size_px, kMaxOutputPx));
  }
}

void check_range(const char* name, const std::array<double, 2>& range, double highest) {
  const bool in_order = std::isfinite(range[0]) && std::isfinite(range[1]) && range[0] > 0 &&
                        range[0] <= range[1] && range[1] <= highest;
  if (in_order) return;
  const std::string bound = std::isfinite(highest) ? fmt::format(" <= {}", highest) : "";
  refuse(
      fmt::format("{} is ({}, {}); it must be 0 < low <= high{}", name, range[0], range[1], bound));
}

}  // namespace

std::vector<std::string> Pipeline::recipe_names() {
  return {"imagenet-train", "imagenet-val", "read"};
}

Pipeline Pipeline::recipe(std::string_view name) {
  Pipeline pipeline;
  if (name == "read") {
    pipeline.reads_only = true;
    return pipeline;
  }
  pipeline.mean.assign(kImagenetMean.begin(), kImagenetMean.end());
  pipeline.std.assign(kImagenetStd.begin(), kImagenetStd.end());
  if (name == "imagenet-train") {
    pipeline.random_resized_crop.emplace();
    pipeline.flip_probability = 0.5;
    return pipeline;
  }
  if (name == "imagenet-val") {
    pipeline.resize_center_crop.emplace();
    return pipeline;
  }
  refuse(fmt::format("there is no recipe {:?}; the recipes are {}", name,
                     fmt::join(recipe_names(), ", ")));
}

void Pipeline::check() const {
  if (reads_only) {
    const bool is_bare = !random_resized_crop && !resize_center_crop && ops.empty() &&
                         flip_probability == 0 && mean.empty() && std.empty();
    if (!is_bare) {
      refuse(
          "the pipeline only reads and has something to do with pictures as well; leave out "
          "reads_only, or crop, resize, flip, ops, mean and std");
    }
    return;
  }
  if (random_resized_crop.has_value() == resize_center_crop.has_value()) {
    refuse(
        fmt::format("the pipeline has {} of random_resized_crop and resize_center_crop; it needs "
                    "exactly one, since the pictures of a batch have one size",
                    random_resized_crop ? "both" : "none"));
  }
  if (random_resized_crop) {
    check_size("random_resized_crop size", random_resized_crop->size_px);
    check_range("random_resized_crop scale", random_resized_crop->scale, 1.0);
    check_range("random_resized_crop ratio", random_resized_crop->ratio, HUGE_VAL);
  } else {
    check_size("resize size", resize_center_crop->resize_px);
    check_size("center_crop size", resize_center_crop->crop_px);
  }
  if (!(flip_probability >= 0 && flip_probability <= 1)) {
    refuse(fmt::format("flip probability is {}; it must be from 0 to 1", flip_probability));
  }
  for (const auto& op : ops) {
    if (!op) refuse("an op of the pipeline is null");
  }
  ops::check({dtype, layout, mean, std});
  const ops::ImageSize size = output_size();
  check_size("output width", size.width_px);
  check_size("output height", size.height_px);
}

ops::ImageSize Pipeline::output_size() const {
  if (reads_only) return {0, 0};
  const std::uint32_t side_px =
      random_resized_crop ? random_resized_crop->size_px : resize_center_crop->crop_px;
  ops::ImageSize size{side_px, side_px};
  for (const auto& op : ops) size = op->plan(size);
  return size;
}

std::string Pipeline::describe() const {
  if (reads_only) return "read only, nothing is decoded";
  std::string text = orientation == Orientation::kUpright ? "decode upright" : "decode";
  if (random_resized_crop)
    text += fmt::format(" > random_resized_crop {}", random_resized_crop->size_px);
  if (resize_center_crop) {
    text += fmt::format(" > resize {} > center_crop {}", resize_center_crop->resize_px,
                        resize_center_crop->crop_px);
  }
  if (flip_probability > 0) text += fmt::format(" > flip {}", flip_probability);
  for (const auto& op : ops) text += fmt::format(" > {} (not fused)", op->name());
  if (!mean.empty() || !std.empty()) text += " > normalize";
  return text + fmt::format(" > {} {}", to_string(dtype), to_string(layout));
}

}  // namespace feedrace
