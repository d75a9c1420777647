// SPDX-License-Identifier: Apache-2.0
#include "feedrace/transform/step_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/error.h"
#include "feedrace/ops/color_jitter.h"
#include "feedrace/ops/random_erasing.h"
#include "feedrace/transform/step_draw.h"

namespace feedrace {
namespace {

struct NameOf {
  std::string operator()(const RandomResizedCrop&) const { return "random_resized_crop"; }
  std::string operator()(const Resize&) const { return "resize"; }
  std::string operator()(const CenterCrop&) const { return "center_crop"; }
  std::string operator()(const Crop&) const { return "crop"; }
  std::string operator()(const RandomCrop&) const { return "random_crop"; }
  std::string operator()(const Flip&) const { return "flip"; }
  std::string operator()(const Pad&) const { return "pad"; }
  std::string operator()(const Grayscale&) const { return "grayscale"; }
  std::string operator()(const ColorJitter&) const { return "color_jitter"; }
  std::string operator()(const std::shared_ptr<const ops::Op>& op) const {
    return std::string(op->name());
  }
};

}  // namespace

std::string name_of(const Step& step) { return std::visit(NameOf{}, step); }

}  // namespace feedrace

namespace feedrace::transform {
namespace {

// A side beyond this is a slip of the pen: 16,384 x 16,384 x 3 floats are 3.2 GB an image.
constexpr std::uint32_t kMaxOutputPx = 16384;
constexpr std::uint32_t kMaxNumberId = 0xffff;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void check_px(std::string_view name, std::uint32_t size_px) {
  if (size_px == 0 || size_px > kMaxOutputPx) {
    refuse(fmt::format("{} is {} px; it must be from 1 to {}", name, size_px, kMaxOutputPx));
  }
}

/// A range of positive numbers.
void check_range(std::string_view name, const std::array<double, 2>& range, double highest) {
  const bool in_order = std::isfinite(range[0]) && std::isfinite(range[1]) && range[0] > 0 &&
                        range[0] <= range[1] && range[1] <= highest;
  if (in_order) return;
  const std::string bound = std::isfinite(highest) ? fmt::format(" <= {}", highest) : "";
  refuse(
      fmt::format("{} is ({}, {}); it must be 0 < low <= high{}", name, range[0], range[1], bound));
}

void check_between(std::string_view name, const std::array<double, 2>& range, double lowest,
                   double highest) {
  if (lowest <= range[0] && range[0] <= range[1] && range[1] <= highest) return;
  refuse(fmt::format("{} is ({}, {}); it must be {} <= low <= high{}", name, range[0], range[1],
                     lowest, std::isfinite(highest) ? fmt::format(" <= {}", highest) : ""));
}

void check_number(std::string_view name, const Number& number, double lowest, double highest) {
  if (number.id > kMaxNumberId) {
    refuse(fmt::format("{}: draw {} is beyond {}", name, number.id, kMaxNumberId));
  }
  if (number.kind == Number::Kind::kCoinFlip) {
    check_between(fmt::format("{} probability", name), {number.low, number.low}, 0, 1);
  } else if (number.kind == Number::Kind::kUniform) {
    check_between(name, {number.low, number.high}, lowest, highest);
  } else if (!(lowest <= number.low && number.low <= highest)) {
    refuse(fmt::format("{} is {}; it must be from {} to {}", name, number.low, lowest, highest));
  }
}

struct Check {
  void operator()(const RandomResizedCrop& step) const {
    check_size("random_resized_crop", step.size);
    check_range("random_resized_crop scale", step.scale, 1.0);
    check_range("random_resized_crop ratio", step.ratio, HUGE_VAL);
  }
  void operator()(const Resize& step) const {
    if (step.by == Resize::By::kSize) return check_size("resize", step.size);
    check_px("resize size", step.side_px);
    if (step.longest_px == 0) return;
    check_px("resize longest", step.longest_px);
    if (step.longest_px > step.side_px) return;
    refuse(fmt::format("resize longest is {} px, not above the shorter side's {}; give more",
                       step.longest_px, step.side_px));
  }
  void operator()(const CenterCrop& step) const { check_size("center_crop", step.size); }
  void operator()(const Crop& step) const {
    check_size("crop", step.size);
    check_number("crop x", step.x, 0, 1);
    check_number("crop y", step.y, 0, 1);
  }
  void operator()(const RandomCrop& step) const { check_size("random_crop", step.size); }
  void operator()(const Flip& step) const {
    check_number("flip horizontal", step.horizontal, 0, 1);
    check_number("flip vertical", step.vertical, 0, 1);
  }
  void operator()(const Pad& step) const {
    for (const std::uint32_t px : {step.left_px, step.top_px, step.right_px, step.bottom_px}) {
      if (px > kMaxOutputPx) {
        refuse(fmt::format("a border of pad is {} px; it must be from 0 to {}", px, kMaxOutputPx));
      }
    }
  }
  void operator()(const Grayscale& step) const {
    check_number("grayscale apply", step.apply, 0, 1);
  }
  void operator()(const ColorJitter& step) const {
    ops::check(ops::ColorRanges{step.brightness, step.contrast, step.saturation, step.hue});
    check_number("color_jitter apply", step.apply, 0, 1);
  }
  void operator()(const std::shared_ptr<const ops::Op>& op) const {
    if (!op) refuse("an op of the pipeline is null");
  }
};

std::string size_text(ops::ImageSize size) {
  if (size.width_px == size.height_px) return fmt::format("{}", size.width_px);
  return fmt::format("{}x{}", size.height_px, size.width_px);  // H x W, as shapes are written.
}

std::string number_text(const Number& number) {
  const std::string id = number.id == 0 ? "" : fmt::format("#{}", number.id);
  if (number.kind == Number::Kind::kUniform) {
    return fmt::format("uniform({}, {}){}", number.low, number.high, id);
  }
  return fmt::format("{}{}", number.low, id);
}

std::string apply_text(const Number& apply) {
  return apply == Number::constant(1) ? "" : " apply " + number_text(apply);
}

std::string range_text(std::string_view name, const std::array<double, 2>& range,
                       const std::array<double, 2>& usual) {
  if (range == usual) return "";
  return fmt::format(" {} ({}, {})", name, range[0], range[1]);
}

struct Text {
  std::string operator()(const RandomResizedCrop& step) const {
    const RandomResizedCrop usual;
    return "random_resized_crop " + size_text(step.size) +
           range_text("scale", step.scale, usual.scale) +
           range_text("ratio", step.ratio, usual.ratio);
  }
  std::string operator()(const Resize& step) const {
    if (step.by == Resize::By::kSize) return "resize to " + size_text(step.size);
    if (step.by == Resize::By::kLongerSide) return fmt::format("resize longer {}", step.side_px);
    return fmt::format("resize {}", step.side_px) +
           (step.longest_px == 0 ? "" : fmt::format(" longest {}", step.longest_px));
  }
  std::string operator()(const CenterCrop& step) const {
    return "center_crop " + size_text(step.size);
  }
  std::string operator()(const Crop& step) const {
    return fmt::format("crop {} at ({}, {})", size_text(step.size), number_text(step.x),
                       number_text(step.y));
  }
  std::string operator()(const RandomCrop& step) const {
    return "random_crop " + size_text(step.size);
  }
  std::string operator()(const Flip& step) const {
    std::string text = is_never(step.horizontal) ? "" : "flip " + number_text(step.horizontal);
    if (is_never(step.vertical)) return text;
    return text + (text.empty() ? "" : ", ") + "flip vertical " + number_text(step.vertical);
  }
  std::string operator()(const Pad& step) const {
    std::string text = fmt::format("pad ({}, {}, {}, {})", step.left_px, step.top_px, step.right_px,
                                   step.bottom_px);
    if (step.mode != ops::PadMode::kConstant) text += fmt::format(" {}", to_string(step.mode));
    if (step.fill == Pad{}.fill) return text;
    return text + fmt::format(" fill ({})", fmt::join(step.fill, ", "));
  }
  std::string operator()(const Grayscale& step) const {
    return "grayscale" + apply_text(step.apply);
  }
  std::string operator()(const ColorJitter& step) const {
    std::string text = "color_jitter";
    const auto add = [&](const char* name, const std::optional<std::array<double, 2>>& range) {
      if (range) text += fmt::format(" {} ({}, {})", name, (*range)[0], (*range)[1]);
    };
    add("brightness", step.brightness);
    add("contrast", step.contrast);
    add("saturation", step.saturation);
    add("hue", step.hue);
    return text + apply_text(step.apply);
  }
  std::string operator()(const std::shared_ptr<const ops::Op>& op) const {
    return std::string(op->name());
  }
};

}  // namespace

void check_size(std::string_view name, ops::ImageSize size) {
  check_px(fmt::format("{} width", name), size.width_px);
  check_px(fmt::format("{} height", name), size.height_px);
}

void check_step(const Step& step) { std::visit(Check{}, step); }

void check_erasing(const RandomErasing& erasing, const Pipeline& pipeline) {
  ops::check(erasing_in_tensor_units(erasing, pipeline), pipeline.dtype);
}

std::string step_text(const Step& step) { return std::visit(Text{}, step); }

std::string erasing_text(const RandomErasing& erasing) {
  const RandomErasing usual;
  std::string text = fmt::format("random_erasing {}", erasing.probability) +
                     range_text("scale", erasing.scale, usual.scale) +
                     range_text("ratio", erasing.ratio, usual.ratio);
  if (erasing.is_noise) return text + " noise";
  if (erasing.value == usual.value && !erasing.before_normalize) return text;
  return text + fmt::format(" value ({}){}", fmt::join(erasing.value, ", "),
                            erasing.before_normalize ? " before normalize" : "");
}

std::string normalize_text(const Pipeline& pipeline) {
  const auto equals = [](const std::vector<float>& values, const std::array<float, 3>& usual) {
    return std::equal(values.begin(), values.end(), usual.begin(), usual.end());
  };
  if (equals(pipeline.mean, kImagenetMean) && equals(pipeline.std, kImagenetStd)) return "";
  return fmt::format(" mean ({}) std ({})", fmt::join(pipeline.mean, ", "),
                     fmt::join(pipeline.std, ", "));
}

}  // namespace feedrace::transform
