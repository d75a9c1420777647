// SPDX-License-Identifier: Apache-2.0
#include "feedrace/transform/step_trace.h"

#include <variant>

#include <nlohmann/json.hpp>

#include "feedrace/ops/color_jitter.h"

namespace feedrace::transform {
namespace {

using Json = nlohmann::ordered_json;

Json size_json(ops::ImageSize size) { return {size.height_px, size.width_px}; }

struct Drawn {
  Json operator()(const Resampling& step) const {
    const ops::CropBox& box = step.box;
    return {{"box", {box.x_px, box.y_px, box.width_px, box.height_px}}};
  }
  Json operator()(const ops::CropWindow& step) const {
    return {{"box", {step.x_px, step.y_px, step.size.width_px, step.size.height_px}}};
  }
  Json operator()(const ops::Flip& step) const {
    return {{"horizontal", step.horizontal}, {"vertical", step.vertical}};
  }
  Json operator()(const ops::Padding& step) const {
    return {{"border", {step.left_px, step.top_px, step.right_px, step.bottom_px}}};
  }
  Json operator()(const Graying& step) const { return {{"apply", step.apply}}; }
  Json operator()(const Coloring& step) const {
    Json order = Json::array();
    for (const ops::ColorAdjustment one : step.values.order) order.push_back(to_string(one));
    const auto factor = [](const std::optional<double>& value) {
      return value ? Json(*value) : Json();
    };
    return {{"apply", step.apply},
            {"order", std::move(order)},
            {"brightness", factor(step.values.brightness)},
            {"contrast", factor(step.values.contrast)},
            {"saturation", factor(step.values.saturation)},
            {"hue", factor(step.values.hue)}};
  }
  Json operator()(const OwnOp&) const { return Json::object(); }
};

}  // namespace

Result<void> trace_steps(const Pipeline& pipeline, ops::ImageSize picture, const SampleKey& key,
                         nlohmann::ordered_json& list) {
  const std::vector<std::uint32_t> streams = streams_of(pipeline.steps);
  for (std::size_t i = 0; i < pipeline.steps.size(); ++i) {
    const auto drawn = draw_step(pipeline.steps[i], streams[i], picture, key);
    if (!drawn) return drawn.error();
    picture = output_of(*drawn, picture);
    Json entry = {{"op", name_of(pipeline.steps[i])}};
    entry.update(std::visit(Drawn{}, *drawn));
    entry["output"] = size_json(picture);
    list.push_back(std::move(entry));
  }
  for (std::size_t i = 0; i < pipeline.erasings.size(); ++i) {
    const DrawnErasing drawn = draw_erasing(pipeline, i, picture, key);
    Json entry = {{"op", "random_erasing"}, {"apply", drawn.values.has_value()}};
    if (drawn.values) {
      const ops::CropBox& box = drawn.values->box;
      entry["box"] = {box.x_px, box.y_px, box.width_px, box.height_px};
    }
    list.push_back(std::move(entry));
  }
  return {};
}

}  // namespace feedrace::transform
