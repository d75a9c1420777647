// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/steps.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/python/native_error.h"
#include "feedrace/python/python_op.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

/// One step's dict. Each key is asked for once; what nobody asked for is an error.
class StepReader {
 public:
  explicit StepReader(nb::handle step) {
    if (!nb::isinstance<nb::dict>(step))
      refuse("a step is not a dict; make steps with feedrace.fn");
    step_ = nb::borrow<nb::dict>(step);
    op = text("op");
  }

  bool has(const char* key) {
    seen_.insert(key);
    return step_.contains(key) && !nb::object(step_[key]).is_none();
  }
  nb::object value(const char* key) {
    if (!has(key)) refuse(fmt::format("{}: {} is missing", op.empty() ? "a step" : op, key));
    return step_[key];
  }
  std::string text(const char* key) {
    std::string text;
    if (!nb::try_cast(value(key), text)) wrong(key, "a str");
    return text;
  }
  double real(const char* key) { return real_in(value(key), key); }
  std::uint32_t whole(const char* key) { return whole_in(value(key), key); }
  bool flag(const char* key) { return has(key) && nb::cast<bool>(value(key)); }

  template <std::size_t N>
  std::array<double, N> reals(const char* key) {
    const nb::object sequence = value(key);
    std::array<double, N> values{};
    if (!nb::isinstance<nb::sequence>(sequence) || nb::len(sequence) != N) {
      wrong(key, fmt::format("{} numbers", N).c_str());
    }
    for (std::size_t i = 0; i < N; ++i) values[i] = real_in(sequence[i], key);
    return values;
  }
  std::optional<std::array<double, 2>> range_or_none(const char* key) {
    if (!has(key)) return std::nullopt;
    return reals<2>(key);
  }
  std::vector<std::int64_t> wholes(const char* key) {
    const nb::object sequence = value(key);
    if (!nb::isinstance<nb::sequence>(sequence)) wrong(key, "whole numbers");
    std::vector<std::int64_t> values;
    for (const nb::handle each : sequence) values.push_back(whole_in(each, key));
    return values;
  }
  /// (height, width), in that order.
  ops::ImageSize size(const char* key = "size") {
    const nb::object pair = value(key);
    if (!nb::isinstance<nb::sequence>(pair) || nb::len(pair) != 2) wrong(key, "(height, width)");
    return {whole_in(pair[1], key), whole_in(pair[0], key)};
  }
  Number number(const char* key, double by_default) {
    if (!has(key)) return Number::constant(by_default);
    const nb::object given = value(key);
    if (!nb::isinstance<nb::dict>(given)) return Number::constant(real_in(given, key));
    StepDraw draw{nb::borrow<nb::dict>(given)};
    return read_draw(draw, key);
  }
  /// Call last.
  void finish() const {
    for (const auto& [key, unused] : step_) {
      const std::string name = nb::cast<std::string>(key);
      if (!seen_.contains(name)) {
        refuse(fmt::format("{}: there is no argument {:?}; there are {}", op, name,
                           fmt::join(seen_, ", ")));
      }
    }
  }

  std::string op;

 private:
  struct StepDraw {
    nb::dict fields;
    nb::object get(const char* key, const char* owner) const {
      if (!fields.contains(key)) refuse(fmt::format("{}: a draw without {}", owner, key));
      return fields[key];
    }
  };

  Number read_draw(const StepDraw& draw, const char* key) {
    std::string kind;
    if (!nb::try_cast(draw.get("draw", key), kind)) wrong(key, "a draw");
    const std::uint32_t id = whole_in(draw.get("id", key), key);
    if (kind == "coin_flip") {
      return Number::coin_flip(real_in(draw.get("probability", key), key), id);
    }
    if (kind != "uniform") {
      refuse(fmt::format("{}: {}: there is no draw {:?}; there are coin_flip, uniform", op, key,
                         kind));
    }
    const nb::object range = draw.get("range", key);
    if (!nb::isinstance<nb::sequence>(range) || nb::len(range) != 2)
      wrong(key, "a range (low, high)");
    return Number::uniform(real_in(range[0], key), real_in(range[1], key), id);
  }

  [[noreturn]] void wrong(const char* key, const char* wanted) const {
    refuse(fmt::format("{}: {} is {}; give {}", op, key, nb::repr(nb::object(step_[key])).c_str(),
                       wanted));
  }
  double real_in(nb::handle value, const char* key) const {
    double number = 0;
    if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value) ? 1 : 0;
    if (!nb::try_cast(value, number) || !std::isfinite(number)) wrong(key, "a finite number");
    return number;
  }
  std::uint32_t whole_in(nb::handle value, const char* key) const {
    std::uint32_t number = 0;
    if (!nb::try_cast(value, number)) wrong(key, "a whole number from 0 to 4294967295");
    return number;
  }

  nb::dict step_;
  std::set<std::string> seen_;
};

Resize read_resize(StepReader& step) {
  Resize resize;
  if (step.has("size")) {
    resize.by = Resize::By::kSize;
    resize.size = step.size();
  } else if (step.has("longer")) {
    resize.by = Resize::By::kLongerSide;
    resize.side_px = step.whole("longer");
  } else {
    resize.side_px = step.whole("shorter");
    if (step.has("longest")) resize.longest_px = step.whole("longest");
  }
  step.has("shorter");
  step.has("longest");
  return resize;
}

Pad read_pad(StepReader& step) {
  Pad pad;
  pad.left_px = step.whole("left");
  pad.top_px = step.whole("top");
  pad.right_px = step.whole("right");
  pad.bottom_px = step.whole("bottom");
  if (step.has("fill")) {
    const auto fill = step.reals<3>("fill");
    for (std::size_t c = 0; c < 3; ++c) {
      if (!(fill[c] >= 0 && fill[c] <= 255)) {
        refuse(fmt::format("pad: fill is ({}); give levels from 0 to 255", fmt::join(fill, ", ")));
      }
      pad.fill[c] = static_cast<std::uint8_t>(fill[c]);
    }
  }
  if (!step.has("mode")) return pad;
  const std::string mode = step.text("mode");
  for (const auto known : {ops::PadMode::kConstant, ops::PadMode::kEdge, ops::PadMode::kReflect,
                           ops::PadMode::kSymmetric}) {
    pad.mode = known;
    if (mode == to_string(known)) return pad;
  }
  refuse(fmt::format("pad: there is no mode {:?}; there are constant, edge, reflect, symmetric",
                     mode));
}

ColorJitter read_color_jitter(StepReader& step) {
  ColorJitter jitter;
  jitter.brightness = step.range_or_none("brightness");
  jitter.contrast = step.range_or_none("contrast");
  jitter.saturation = step.range_or_none("saturation");
  jitter.hue = step.range_or_none("hue");
  jitter.apply = step.number("apply", 1);
  return jitter;
}

Step read_python_function(StepReader& step) {
  const nb::object function = step.value("function");
  if (!nb::isinstance<nb::callable>(function)) refuse("python_function: function can't be called");
  std::optional<ops::ImageSize> size;
  if (step.has("size")) size = step.size();
  return std::make_shared<const PythonOp>(function, step.text("name"), size, step.flag("random"));
}

RandomErasing read_erasing(StepReader& step, bool is_normalized) {
  RandomErasing erasing;
  erasing.probability = step.real("probability");
  erasing.scale = step.reals<2>("scale");
  erasing.ratio = step.reals<2>("ratio");
  erasing.before_normalize = !is_normalized;
  const nb::object value = step.value("value");
  if (nb::isinstance<nb::str>(value)) {
    if (step.text("value") != "random") {
      refuse(fmt::format("random_erasing: value is {:?}; give \"random\" or 3 numbers",
                         step.text("value")));
    }
    erasing.is_noise = true;
    return erasing;
  }
  const auto numbers = step.reals<3>("value");
  std::transform(numbers.begin(), numbers.end(), erasing.value.begin(),
                 [](double number) { return static_cast<float>(number); });
  return erasing;
}

RawSamples read_raw(StepReader& step) {
  RawSamples raw;
  const bool is_plain = step.has("header") && !step.flag("header");
  raw.form = is_plain ? RawSamples::Form::kPlain : RawSamples::Form::kNpy;
  if (step.has("dtype")) {
    const std::string dtype = step.text("dtype");
    const auto known = {DType::kUint8, DType::kFloat16, DType::kFloat32, DType::kInt64};
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](DType one) { return dtype == to_string(one); });
    if (found == known.end()) {
      refuse(fmt::format("raw: dtype is {:?}; give uint8, float16, float32 or int64", dtype));
    }
    raw.dtype = *found;
  }
  if (step.has("shape")) raw.shape = step.wholes("shape");
  return raw;
}

/// Reads the list; keeps what the order of steps needs to know.
class PipelineReader {
 public:
  Pipeline read(const nb::list& steps) {
    for (const nb::handle each : steps) {
      StepReader step(each);
      if (is_finished_)
        refuse(fmt::format("{} stands behind to_tensor; to_tensor is the last", step.op));
      take(step);
      step.finish();
    }
    if (!is_begun_)
      refuse("the pipeline has no steps; begin with decode, or take read_only or raw alone");
    // Without to_tensor: what torchvision's ToImage, ToDtype(float32, scale=True) would give.
    if (!is_finished_ && !pipeline_.reads_only) pipeline_.dtype = DType::kFloat32;
    pipeline_.check();
    return std::move(pipeline_);
  }

 private:
  void take(StepReader& step) {
    if (step.op == "read_only") {
      begin(step);
      pipeline_.reads_only = true;
      is_finished_ = true;
    } else if (step.op == "raw") {
      begin(step);
      pipeline_.raw = read_raw(step);
      is_finished_ = true;
    } else if (step.op == "decode") {
      begin(step);
      pipeline_.orientation = orientation(step);
    } else if (!is_begun_) {
      refuse(fmt::format("{} stands at the front; begin with decode", step.op));
    } else if (step.op == "normalize") {
      normalize(step);
    } else if (step.op == "random_erasing") {
      pipeline_.erasings.push_back(read_erasing(step, is_normalized_));
    } else if (step.op == "to_tensor") {
      to_tensor(step);
    } else {
      if (is_normalized_ || !pipeline_.erasings.empty()) {
        refuse(fmt::format("{} stands behind {}; it works on 8-bit pictures, so put it before",
                           step.op, is_normalized_ ? "normalize" : "random_erasing"));
      }
      pipeline_.steps.push_back(read_step(step));
    }
  }

  void begin(const StepReader& step) {
    if (is_begun_)
      refuse(fmt::format("{} is not the first step; a pipeline begins with it once", step.op));
    is_begun_ = true;
  }

  static Orientation orientation(StepReader& step) {
    if (!step.has("orientation") || step.text("orientation") == "keep") return Orientation::kKeep;
    if (step.text("orientation") == "upright") return Orientation::kUpright;
    refuse(
        fmt::format("decode: orientation is {:?}; give keep or upright", step.text("orientation")));
  }

  void normalize(StepReader& step) {
    if (is_normalized_) refuse("normalize comes twice; merge the two into one");
    const auto as_floats = [](const std::array<double, 3>& values) {
      return std::vector<float>(values.begin(), values.end());
    };
    pipeline_.mean = as_floats(step.reals<3>("mean"));
    pipeline_.std = as_floats(step.reals<3>("std"));
    is_normalized_ = true;
  }

  void to_tensor(StepReader& step) {
    const std::string dtype = step.text("dtype");
    const auto known = {DType::kFloat16, DType::kFloat32, DType::kUint8};
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](DType one) { return dtype == to_string(one); });
    if (found == known.end()) {
      refuse(fmt::format("to_tensor: dtype is {:?}; give float16, float32 or uint8", dtype));
    }
    pipeline_.dtype = *found;
    const std::string layout = step.text("layout");
    if (layout != "CHW" && layout != "HWC") {
      refuse(fmt::format("to_tensor: layout is {:?}; give CHW or HWC", layout));
    }
    pipeline_.layout = layout == "CHW" ? Layout::kChw : Layout::kHwc;
    is_finished_ = true;
  }

  static Step read_step(StepReader& step) {
    const std::string& op = step.op;
    if (op == "random_resized_crop") {
      return RandomResizedCrop{step.size(), step.reals<2>("scale"), step.reals<2>("ratio")};
    }
    if (op == "resize") return read_resize(step);
    if (op == "center_crop") return CenterCrop{step.size()};
    if (op == "crop") return Crop{step.size(), step.number("x", 0.5), step.number("y", 0.5)};
    if (op == "random_crop") return RandomCrop{step.size()};
    if (op == "flip") return Flip{step.number("horizontal", 0), step.number("vertical", 0)};
    if (op == "pad") return read_pad(step);
    if (op == "grayscale") return Grayscale{step.number("apply", 1)};
    if (op == "color_jitter") return read_color_jitter(step);
    if (op == "python_function") return read_python_function(step);
    refuse(fmt::format(
        "there is no step {:?}; there are decode, random_resized_crop, resize, center_crop, crop, "
        "random_crop, flip, pad, grayscale, color_jitter, python_function, normalize, "
        "random_erasing, to_tensor, read_only, raw",
        op));
  }

  Pipeline pipeline_;
  bool is_begun_ = false;
  bool is_normalized_ = false;
  bool is_finished_ = false;
};

nb::object pair_of(ops::ImageSize size) { return nb::make_tuple(size.height_px, size.width_px); }

nb::object number_of(const Number& number) {
  if (number.kind == Number::Kind::kConstant) return nb::float_(number.low);
  nb::dict draw;
  if (number.kind == Number::Kind::kCoinFlip) {
    draw["draw"] = "coin_flip";
    draw["probability"] = number.low;
  } else {
    draw["draw"] = "uniform";
    draw["range"] = nb::make_tuple(number.low, number.high);
  }
  draw["id"] = number.id;
  return draw;
}

/// Of the steps that recipes are made of.
struct Write {
  nb::dict& out;
  void operator()(const RandomResizedCrop& step) const {
    out["size"] = pair_of(step.size);
    out["scale"] = nb::make_tuple(step.scale[0], step.scale[1]);
    out["ratio"] = nb::make_tuple(step.ratio[0], step.ratio[1]);
  }
  void operator()(const Resize& step) const { out["shorter"] = step.side_px; }
  void operator()(const CenterCrop& step) const { out["size"] = pair_of(step.size); }
  void operator()(const Flip& step) const {
    out["horizontal"] = number_of(step.horizontal);
    out["vertical"] = number_of(step.vertical);
  }
  template <typename T>
  void operator()(const T& /*step*/) const {}
};

nb::dict step_of(const char* op) {
  nb::dict step;
  step["op"] = op;
  return step;
}

nb::tuple triple_of(const std::vector<float>& values) {
  // Through text: 0.485, not 0.48500001430511475.
  const auto number = [](float value) { return nb::float_(std::stod(fmt::format("{}", value))); };
  return nb::make_tuple(number(values[0]), number(values[1]), number(values[2]));
}

}  // namespace

Pipeline pipeline_of(const nb::list& steps) { return PipelineReader().read(steps); }

nb::list steps_of(const Pipeline& pipeline) {
  nb::list list;
  if (pipeline.reads_only) {
    list.append(step_of("read_only"));
    return list;
  }
  if (pipeline.raw) {
    list.append(step_of("raw"));
    return list;
  }
  nb::dict decode = step_of("decode");
  decode["orientation"] = pipeline.orientation == Orientation::kKeep ? "keep" : "upright";
  list.append(decode);
  for (const Step& step : pipeline.steps) {
    nb::dict out = step_of(name_of(step).c_str());
    std::visit(Write{out}, step);
    list.append(out);
  }
  nb::dict normalize = step_of("normalize");
  normalize["mean"] = triple_of(pipeline.mean);
  normalize["std"] = triple_of(pipeline.std);
  list.append(normalize);
  nb::dict to_tensor = step_of("to_tensor");
  to_tensor["dtype"] = to_string(pipeline.dtype);
  to_tensor["layout"] = to_string(pipeline.layout);
  list.append(to_tensor);
  return list;
}

}  // namespace feedrace::python
