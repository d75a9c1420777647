// SPDX-License-Identifier: Apache-2.0
#include "feedrace/transform/fused_head.h"

#include <algorithm>
#include <variant>

namespace feedrace::transform {
namespace {

bool is_black(const Pad& pad) {
  return pad.mode == ops::PadMode::kConstant &&
         std::all_of(pad.fill.begin(), pad.fill.end(),
                     [](std::uint8_t level) { return level == 0; });
}

bool is_resize(const Step& step) {
  return std::holds_alternative<RandomResizedCrop>(step) || std::holds_alternative<Resize>(step);
}

}  // namespace

std::string HeadRules::take(const Step& step) {
  if (is_resize(step)) {
    if (is_resized_) return "the picture is resized before, and one pass resizes once";
    if (is_cut_) return "the picture is cut or padded before; crop after resizing";
    if (is_flipped_) return "the picture is flipped before; flip after resizing";
    is_resized_ = true;
    return "";
  }
  if (const auto* flip = std::get_if<Flip>(&step)) {
    if (!is_never(flip->vertical)) return "a flip from top to bottom needs the whole picture";
    is_flipped_ = true;
    return "";
  }
  if (const auto* pad = std::get_if<Pad>(&step)) {
    if (!is_black(*pad)) return "borders that are not black need the whole picture";
    if (window_) return "the picture is cut before, and lies where the borders belong";
  }
  if (std::holds_alternative<ColorJitter>(step)) {
    return "contrast and order of the factors need the whole picture";
  }
  if (std::holds_alternative<Grayscale>(step)) return "it mixes the channels";
  if (std::holds_alternative<std::shared_ptr<const ops::Op>>(step)) return "its code is not ours";
  if (const auto* crop = std::get_if<CenterCrop>(&step)) {
    const bool is_inside = !window_ || (crop->size.width_px <= window_->width_px &&
                                        crop->size.height_px <= window_->height_px);
    if (!is_inside) return "it reaches beyond what is cut before";
    window_ = crop->size;
  }
  if (const auto* crop = std::get_if<Crop>(&step)) window_ = crop->size;
  if (const auto* crop = std::get_if<RandomCrop>(&step)) window_ = crop->size;
  is_cut_ = true;
  return "";
}

FusedHead::FusedHead(ops::ImageSize picture)
    : crop_{0, 0, picture.width_px, picture.height_px}, resize_(ops::resize_to(picture, picture)) {}

void FusedHead::add(const DrawnStep& step) {
  if (const auto* resampling = std::get_if<Resampling>(&step)) {
    resample(*resampling);
  } else if (const auto* window = std::get_if<ops::CropWindow>(&step)) {
    cut(window->x_px, window->y_px, window->size);
  } else if (const auto* border = std::get_if<ops::Padding>(&step)) {
    cut(-std::int64_t{border->left_px}, -std::int64_t{border->top_px}, output_of(step, output()));
  } else if (const auto* flip = std::get_if<ops::Flip>(&step)) {
    flip_ = flip_ != flip->horizontal;
  }
}

/// Comes before any window and flip: the rules see to it.
void FusedHead::resample(const Resampling& step) {
  crop_ = step.box;
  resize_ = ops::resize_to({step.box.width_px, step.box.height_px}, step.output);
}

/// The pass flips last: a window of the flipped picture is one of the mirror side before it.
void FusedHead::cut(std::int64_t x_px, std::int64_t y_px, ops::ImageSize size) {
  const std::int64_t width = resize_.output.width_px;
  resize_.x_px += flip_ ? width - x_px - size.width_px : x_px;
  resize_.y_px += y_px;
  resize_.output = size;
}

}  // namespace feedrace::transform
