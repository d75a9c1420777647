// SPDX-License-Identifier: Apache-2.0
#include "feedrace/transform/step_draw.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "feedrace/ops/resize_target.h"
#include "feedrace/random.h"

namespace feedrace::transform {
namespace {

// Numbers of the kinds of steps in `SampleRandom`, plus `kAgain` for each of the same kind before.
// They are part of what a seed means: never renumber. Own ops have 16 + their number.
constexpr std::uint32_t kRandomResizedCropStream = 1;
constexpr std::uint32_t kNumberStream = 2;
constexpr std::uint32_t kColorJitterStream = 3;
constexpr std::uint32_t kErasingStream = 4;
constexpr std::uint32_t kRandomCropStream = 5;
constexpr std::uint32_t kFirstOwnOpStream = 16;
constexpr std::uint32_t kAgain = 0x10000;

// The whole of a resized picture is only thought of where a window of it is kept: a line of pixels
// may become very long.
constexpr std::uint64_t kMaxSidePx = std::uint64_t{1} << 31;

std::uint32_t base_stream(const Step& step) {
  if (std::holds_alternative<RandomResizedCrop>(step)) return kRandomResizedCropStream;
  if (std::holds_alternative<ColorJitter>(step)) return kColorJitterStream;
  if (std::holds_alternative<RandomCrop>(step)) return kRandomCropStream;
  return 0;
}

Failure out_of_bounds(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

Result<DrawnStep> draw_resize(const Resize& step, ops::ImageSize input) {
  ops::FullSize full{step.size.width_px, step.size.height_px};
  if (step.by == Resize::By::kLongerSide) full = ops::resize_longer(input, step.side_px);
  if (step.by == Resize::By::kShorterSide) {
    full = ops::resize_shorter(
        input, step.side_px, step.longest_px == 0 ? std::nullopt : std::optional(step.longest_px));
  }
  if (full.width_px > kMaxSidePx || full.height_px > kMaxSidePx) {
    return out_of_bounds(
        fmt::format("a picture of {} x {} px would be resized to {} x {}; leave it "
                    "out, or bound the longer side",
                    input.width_px, input.height_px, full.width_px, full.height_px));
  }
  return DrawnStep(Resampling{
      {0, 0, input.width_px, input.height_px},
      {static_cast<std::uint32_t>(full.width_px), static_cast<std::uint32_t>(full.height_px)}});
}

Failure too_small(const char* name, ops::ImageSize crop, ops::ImageSize input) {
  return out_of_bounds(
      fmt::format("{} {} x {} leaves the picture of {} x {} px; pad or resize it before", name,
                  crop.width_px, crop.height_px, input.width_px, input.height_px));
}

bool fits(ops::ImageSize crop, ops::ImageSize input) {
  return crop.width_px <= input.width_px && crop.height_px <= input.height_px;
}

Result<DrawnStep> draw_crop(const Crop& step, ops::ImageSize input, const SampleKey& key) {
  if (!fits(step.size, input)) return too_small("crop", step.size, input);
  return DrawnStep(ops::placed_window(ops::full_size(input), step.size, value_of(step.x, key),
                                      value_of(step.y, key)));
}

Result<DrawnStep> draw_random_crop(const RandomCrop& step, std::uint32_t stream,
                                   ops::ImageSize input, const SampleKey& key) {
  if (!fits(step.size, input)) return too_small("random_crop", step.size, input);
  SampleRandom random(key.seed, key.draw, key.sample, stream);
  // Row first, as torchvision draws them.
  const std::uint64_t y = random.below(input.height_px - step.size.height_px + std::uint64_t{1});
  const std::uint64_t x = random.below(input.width_px - step.size.width_px + std::uint64_t{1});
  return DrawnStep(
      ops::CropWindow{static_cast<std::int64_t>(x), static_cast<std::int64_t>(y), step.size});
}

Result<DrawnStep> draw_pad(const Pad& step, ops::ImageSize input) {
  const ops::Padding padding{step.left_px,   step.top_px, step.right_px,
                             step.bottom_px, step.mode,   step.fill};
  if (const auto size = ops::padded_size(input, padding); !size) return size.error();
  return DrawnStep(padding);
}

}  // namespace

double value_of(const Number& number, const SampleKey& key) {
  if (number.kind == Number::Kind::kConstant) return number.low;
  SampleRandom random(key.seed, key.draw, key.sample, kNumberStream + number.id * kAgain);
  if (number.kind == Number::Kind::kCoinFlip) return ops::draw_flip(number.low, random) ? 1 : 0;
  return random.uniform(number.low, number.high);
}

bool is_never(const Number& number) noexcept {
  return number.kind != Number::Kind::kUniform && number.low == 0;
}

std::vector<std::uint32_t> streams_of(const std::vector<Step>& steps) {
  std::array<std::uint32_t, kFirstOwnOpStream> seen{};
  std::uint32_t own_ops = 0;
  std::vector<std::uint32_t> streams;
  for (const Step& step : steps) {
    if (std::holds_alternative<std::shared_ptr<const ops::Op>>(step)) {
      streams.push_back(kFirstOwnOpStream + own_ops++);
    } else {
      const std::uint32_t base = base_stream(step);
      streams.push_back(base + kAgain * seen[base]++);
    }
  }
  return streams;
}

ops::Erasing erasing_in_tensor_units(const RandomErasing& erasing, const Pipeline& pipeline) {
  ops::Erasing own{erasing.probability, erasing.scale, erasing.ratio, erasing.value};
  if (erasing.is_noise) own.value.reset();
  if (!erasing.before_normalize) return own;
  if (pipeline.dtype == DType::kUint8) own.std.fill(1.0F / 255.0F);  // Levels, not shares.
  std::copy(pipeline.mean.begin(), pipeline.mean.end(), own.mean.begin());
  std::copy(pipeline.std.begin(), pipeline.std.end(), own.std.begin());
  return own;
}

DrawnErasing draw_erasing(const Pipeline& pipeline, std::size_t index, ops::ImageSize picture,
                          const SampleKey& key) {
  SampleRandom random(key.seed, key.draw, key.sample,
                      kErasingStream + kAgain * static_cast<std::uint32_t>(index));
  DrawnErasing drawn{erasing_in_tensor_units(pipeline.erasings[index], pipeline), {}};
  drawn.values = ops::draw_random_erasing(picture, drawn.erasing, random);
  return drawn;
}

Result<DrawnStep> draw_step(const Step& step, std::uint32_t stream, ops::ImageSize input,
                            const SampleKey& key) {
  if (const auto* crop = std::get_if<RandomResizedCrop>(&step)) {
    SampleRandom random(key.seed, key.draw, key.sample, stream);
    return DrawnStep(Resampling{
        ops::draw_random_resized_crop(input, crop->scale, crop->ratio, random), crop->size});
  }
  if (const auto* resize = std::get_if<Resize>(&step)) return draw_resize(*resize, input);
  if (const auto* center = std::get_if<CenterCrop>(&step)) {
    return DrawnStep(ops::center_window(ops::full_size(input), center->size));
  }
  if (const auto* crop = std::get_if<Crop>(&step)) return draw_crop(*crop, input, key);
  if (const auto* crop = std::get_if<RandomCrop>(&step)) {
    return draw_random_crop(*crop, stream, input, key);
  }
  if (const auto* flip = std::get_if<Flip>(&step)) {
    return DrawnStep(
        ops::Flip{value_of(flip->horizontal, key) != 0, value_of(flip->vertical, key) != 0});
  }
  if (const auto* pad = std::get_if<Pad>(&step)) return draw_pad(*pad, input);
  if (const auto* gray = std::get_if<Grayscale>(&step)) {
    return DrawnStep(Graying{value_of(gray->apply, key) != 0});
  }
  if (const auto* color = std::get_if<ColorJitter>(&step)) {
    SampleRandom random(key.seed, key.draw, key.sample, stream);
    return DrawnStep(
        Coloring{value_of(color->apply, key) != 0,
                 ops::draw_color_jitter(
                     {color->brightness, color->contrast, color->saturation, color->hue}, random)});
  }
  return DrawnStep(OwnOp{std::get<std::shared_ptr<const ops::Op>>(step), stream});
}

ops::ImageSize output_of(const DrawnStep& step, ops::ImageSize input) {
  if (const auto* resampling = std::get_if<Resampling>(&step)) return resampling->output;
  if (const auto* window = std::get_if<ops::CropWindow>(&step)) return window->size;
  if (const auto* padding = std::get_if<ops::Padding>(&step)) {
    return *ops::padded_size(input, *padding);  // `draw_step` saw that there is one.
  }
  if (const auto* own = std::get_if<OwnOp>(&step)) return own->op->plan(input);
  return input;
}

}  // namespace feedrace::transform
