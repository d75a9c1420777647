// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "feedrace/op.h"
#include "feedrace/tensor.h"

namespace feedrace {

enum class Orientation : std::uint8_t {
  kKeep,     ///< As stored, as torchvision and Pillow do.
  kUpright,  ///< Turned by the EXIF tag.
};

/// A number that is the same for all samples, or drawn for each. Two that have the same `id` are
/// the same draw: a function of (seed, epoch, sample, id).
struct Number {
  enum class Kind : std::uint8_t {
    kConstant,  ///< `low`.
    kUniform,   ///< In [low, high).
    kCoinFlip,  ///< 1 with probability `low`, else 0.
  };
  Kind kind = Kind::kConstant;
  double low = 0;
  double high = 0;
  std::uint32_t id = 0;  ///< Below 65,536.

  static Number constant(double value) { return {Kind::kConstant, value, value, 0}; }
  static Number coin_flip(double probability = 0.5, std::uint32_t id = 0) {
    return {Kind::kCoinFlip, probability, probability, id};
  }
  static Number uniform(double low, double high, std::uint32_t id = 0) {
    return {Kind::kUniform, low, high, id};
  }
  friend bool operator==(const Number&, const Number&) = default;
};

/// A crop of random area and shape, resized to `size`: torchvision's RandomResizedCrop.
struct RandomResizedCrop {
  ops::ImageSize size{224, 224};
  std::array<double, 2> scale = {0.08, 1.0};         ///< Share of the picture's area.
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};  ///< Width by height.
};

/// To an exact size, or so that one side has a length and the shape stays.
struct Resize {
  enum class By : std::uint8_t { kSize, kShorterSide, kLongerSide };
  By by = By::kShorterSide;
  ops::ImageSize size = {};      ///< For `kSize`.
  std::uint32_t side_px = 256;   ///< For the other two.
  std::uint32_t longest_px = 0;  ///< For `kShorterSide`: the longer side is at most this; 0: any.
};

/// The middle, with black borders where the picture is smaller: torchvision's CenterCrop.
struct CenterCrop {
  ops::ImageSize size{224, 224};
};

/// A window at `x`, `y` in [0, 1] of the room that it leaves, rounded to the nearest pixel. A
/// smaller picture is a bad sample.
struct Crop {
  ops::ImageSize size = {};
  Number x = Number::constant(0.5);
  Number y = Number::constant(0.5);
};

/// A window at a place of which each is as likely: torchvision's RandomCrop.
struct RandomCrop {
  ops::ImageSize size = {};
};

struct Flip {
  Number horizontal = {};  ///< Not 0: left to right.
  Number vertical = {};    ///< Not 0: top to bottom.
};

struct Pad {
  std::uint32_t left_px = 0;
  std::uint32_t top_px = 0;
  std::uint32_t right_px = 0;
  std::uint32_t bottom_px = 0;
  std::array<std::uint8_t, 3> fill{};  ///< RGB, for `kConstant`.
  ops::PadMode mode = ops::PadMode::kConstant;
};

/// Three equal channels: Pillow's convert("L").
struct Grayscale {
  Number apply = Number::constant(1);  ///< 0: the picture stays.
};

/// torchvision's ColorJitter: factors drawn uniformly from their ranges and applied in an order
/// that is drawn too. A range that is not set changes nothing.
struct ColorJitter {  // NOLINTBEGIN(readability-redundant-member-init): or users are warned
  std::optional<std::array<double, 2>> brightness = {};  ///< Factors >= 0; 1 changes nothing.
  std::optional<std::array<double, 2>> contrast = {};
  std::optional<std::array<double, 2>> saturation = {};
  std::optional<std::array<double, 2>> hue = {};  ///< Shares of the circle, in [-0.5, 0.5].
  Number apply = Number::constant(1);             ///< 0: the picture stays.
};  // NOLINTEND(readability-redundant-member-init)

/// Fills a rectangle of the finished tensor: torchvision's RandomErasing.
struct RandomErasing {
  double probability = 0.5;
  std::array<double, 2> scale = {0.02, 0.33};  ///< Share of the picture's area.
  std::array<double, 2> ratio = {0.3, 3.3};    ///< HEIGHT by width, as torchvision has it here.
  std::array<float, 3> value{};                ///< RGB, in the units that `before_normalize` names.
  bool is_noise = false;          ///< Values of a normal distribution instead of `value`.
  bool before_normalize = false;  ///< `value` is in [0, 1], and is normalised; else it is final.
};

/// What is done to a picture of 8-bit RGB, in the pipeline's order.
using Step = std::variant<RandomResizedCrop, Resize, CenterCrop, Crop, RandomCrop, Flip, Pad,
                          Grayscale, ColorJitter, std::shared_ptr<const ops::Op>>;

/// Samples that are arrays already: nothing is decoded, their numbers are the batch's as they are.
/// One of another dtype or shape is a bad sample.
struct RawSamples {
  enum class Form : std::uint8_t {
    kNpy,    ///< NumPy's .npy: uint8, or little-endian float16, float32 or int64, in C order.
    kPlain,  ///< The numbers alone, likewise; in .bin files unless `image_fields` says otherwise.
  };
  Form form = Form::kNpy;
  std::optional<DType> dtype;                      ///< Not set: as the first sample has it.
  std::optional<std::vector<std::int64_t>> shape;  ///< Of one sample; not set: likewise.

  friend bool operator==(const RawSamples&, const RawSamples&) = default;
};

/// "random_resized_crop", "resize"; of an own op its name.
std::string name_of(const Step& step);

/// What happens to one sample, as plain data: decode, steps, normalise, convert, erase. Checked by
/// `Pipeline::check()` before any thread starts.
///
/// Decoding, one resize, crops, black borders, flips from left to right and the normalisation are
/// fused into one pass that writes the batch once, as long as they stand at the front. The first
/// step that can't be fused, and all behind it, work on a picture of their own, one pass each;
/// `unfused()` says which and why.
struct Pipeline {
  /// Nothing is decoded: samples are read and dropped, and batches have labels, indices and flags,
  /// but no images. What storage alone can give; goes with nothing below.
  bool reads_only = false;
  /// Samples are arrays, and `Batch::images` is [N, shape...]; goes with nothing below.
  std::optional<RawSamples> raw;
  Orientation orientation = Orientation::kKeep;
  std::vector<Step> steps;
  std::vector<float> mean;  ///< Of values in [0, 1]; empty: not normalised.
  std::vector<float> std;
  DType dtype = DType::kFloat16;  ///< kUint8 goes without mean and std.
  Layout layout = Layout::kChw;
  std::vector<RandomErasing> erasings;  ///< Of the finished tensor, one after another.

  /// "imagenet-train": random resized crop 224 (0.08 to 1, 3/4 to 4/3), flip 0.5, ImageNet mean and
  /// std, float16 CHW. "imagenet-val": resize 256, centre crop 224, the same tensor. "read": see
  /// `reads_only`. "raw": see `raw`; .npy files, as the first of them is.
  /// Throws Error kInvalidArgument with the known names.
  static Pipeline recipe(std::string_view name);
  static std::vector<std::string> recipe_names();

  /// Throws Error kInvalidArgument: something to do with pictures that are not decoded, a size of
  /// 0, a share, ratio, factor or probability out of range, mean or std not of length 3, a std that
  /// is 0 or not finite, mean with kUint8.
  void check() const;
  /// Height and width of every output, where the steps make it the same for every picture; nothing
  /// where it depends on the picture: then a batch is a list. Call after `check()`.
  std::optional<ops::ImageSize> output_size() const;
  /// True when a step draws where to crop: such a pipeline is for training.
  bool crops_at_random() const;
  /// Steps at the front that are fused with decoding.
  std::size_t fused_count() const;
  /// A sentence for each step that is not fused: its name, and why.
  std::vector<std::string> unfused() const;
  /// One line: "decode > random_resized_crop 224 > flip 0.5 > normalize > float16 CHW".
  std::string describe() const;
};

}  // namespace feedrace
