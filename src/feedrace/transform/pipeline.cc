// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/error.h"
#include "feedrace/ops/convert.h"
#include "feedrace/transform/fused_head.h"
#include "feedrace/transform/raw_sample.h"
#include "feedrace/transform/step_text.h"

namespace feedrace {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

using OwnOpPointer = std::shared_ptr<const ops::Op>;

/// The size behind a step, where it is the same for every picture; `before` is that in front.
std::optional<ops::ImageSize> size_behind(const Step& step,
                                          const std::optional<ops::ImageSize>& before) {
  if (const auto* crop = std::get_if<RandomResizedCrop>(&step)) return crop->size;
  if (const auto* crop = std::get_if<CenterCrop>(&step)) return crop->size;
  if (const auto* crop = std::get_if<Crop>(&step)) return crop->size;
  if (const auto* crop = std::get_if<RandomCrop>(&step)) return crop->size;
  const auto* resize = std::get_if<Resize>(&step);
  if (resize != nullptr && resize->by == Resize::By::kSize) return resize->size;
  if (!before) return std::nullopt;
  const auto drawn = transform::draw_step(step, 0, *before, {});
  if (!drawn) raise(drawn.error());
  return transform::output_of(*drawn, *before);
}

}  // namespace

std::vector<std::string> Pipeline::recipe_names() {
  return {"imagenet-train", "imagenet-val", "read", "raw"};
}

Pipeline Pipeline::recipe(std::string_view name) {
  Pipeline pipeline;
  if (name == "read") {
    pipeline.reads_only = true;
    return pipeline;
  }
  if (name == "raw") {
    pipeline.raw.emplace();
    return pipeline;
  }
  pipeline.mean.assign(kImagenetMean.begin(), kImagenetMean.end());
  pipeline.std.assign(kImagenetStd.begin(), kImagenetStd.end());
  if (name == "imagenet-train") {
    pipeline.steps = {RandomResizedCrop{}, Flip{Number::coin_flip(), {}}};
    return pipeline;
  }
  if (name == "imagenet-val") {
    pipeline.steps = {Resize{}, CenterCrop{}};
    return pipeline;
  }
  refuse(fmt::format("there is no recipe {:?}; the recipes are {}", name,
                     fmt::join(recipe_names(), ", ")));
}

void Pipeline::check() const {
  if (raw) transform::check_raw(*raw);
  if (reads_only || raw) {
    const char* what = reads_only ? "only reads" : "delivers raw samples";
    if (reads_only && raw) refuse("reads_only and raw are both given; leave one of them out");
    const bool is_bare = steps.empty() && mean.empty() && std.empty() && erasings.empty() &&
                         orientation == Orientation::kKeep;
    if (is_bare) return;
    refuse(
        fmt::format("the pipeline {} and has something to do with pictures as well; leave out "
                    "{}, or steps, mean, std, erasings and orientation",
                    what, reads_only ? "reads_only" : "raw"));
  }
  for (const Step& step : steps) transform::check_step(step);
  for (const RandomErasing& erasing : erasings) transform::check_erasing(erasing, *this);
  ops::check({dtype, layout, mean, std});
  if (const auto size = output_size()) transform::check_size("output", *size);
}

std::optional<ops::ImageSize> Pipeline::output_size() const {
  std::optional<ops::ImageSize> size;
  for (const Step& step : steps) size = size_behind(step, size);
  return size;
}

bool Pipeline::crops_at_random() const {
  const auto is_drawn = [](const Number& number) { return number.kind != Number::Kind::kConstant; };
  return std::any_of(steps.begin(), steps.end(), [&](const Step& step) {
    const auto* crop = std::get_if<Crop>(&step);
    return std::holds_alternative<RandomResizedCrop>(step) ||
           std::holds_alternative<RandomCrop>(step) ||
           (crop != nullptr && (is_drawn(crop->x) || is_drawn(crop->y)));
  });
}

std::size_t Pipeline::fused_count() const {
  transform::HeadRules rules;
  std::size_t count = 0;
  while (count < steps.size() && rules.take(steps[count]).empty()) ++count;
  return count;
}

std::vector<std::string> Pipeline::unfused() const {
  std::vector<std::string> sentences;
  transform::HeadRules rules;
  std::string first;
  for (const Step& step : steps) {
    const std::string reason = first.empty() ? rules.take(step) : "it stands behind " + first;
    if (reason.empty()) continue;
    if (first.empty()) first = name_of(step);
    sentences.push_back(fmt::format("{} is not fused: {}", name_of(step), reason));
  }
  return sentences;
}

std::string Pipeline::describe() const {
  if (reads_only) return "read only, nothing is decoded";
  if (raw) return transform::raw_text(*raw);
  std::string text = orientation == Orientation::kUpright ? "decode upright" : "decode";
  const std::size_t fused = fused_count();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string step = transform::step_text(steps[i]);
    if (step.empty()) continue;
    text += " > " + step + (i < fused ? "" : " (not fused)");
  }
  if (!mean.empty() || !std.empty()) text += " > normalize" + transform::normalize_text(*this);
  for (const RandomErasing& erasing : erasings) text += " > " + transform::erasing_text(erasing);
  return text + fmt::format(" > {} {}", to_string(dtype), to_string(layout));
}

}  // namespace feedrace
