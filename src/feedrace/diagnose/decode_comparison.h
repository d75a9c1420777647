// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/decode/jpeg_decoder.h"
#include "feedrace/decode/libjpeg_decoder.h"
#include "feedrace/decoder.h"
#include "feedrace/diagnose/jpeg_steps.h"
#include "feedrace/diagnose/plain_libjpeg.h"
#include "feedrace/error.h"
#include "feedrace/ops/fused_pass.h"

namespace feedrace::diagnose {

/// What a recipe does with a picture.
struct DecodePlan {
  ops::CropBox crop;
  ops::FusedPlan pass;  ///< Of the crop.
};
using PlanOfPicture = std::function<DecodePlan(const decode::ImageInfo& info)>;

/// A picture in memory.
struct DecodePicture {
  std::string name;
  std::vector<std::byte> encoded;
  decode::ImageInfo info;
  decode::Region region;  ///< Of the crop, what the output depends on.
  ops::FusedPlan plan;
  std::vector<std::byte> crop_index;  ///< Made as `index --crop-index` does; empty: it takes none.
};

/// A kind of work, by each of the two decoders.
enum class DecodeWork : std::uint8_t { kFull, kEntropy, kRegion };
inline constexpr std::array<DecodeWork, 3> kDecodeWorks = {DecodeWork::kFull, DecodeWork::kEntropy,
                                                           DecodeWork::kRegion};
/// As JSON spells it: "full", "entropy", "region".
const char* to_string(DecodeWork work) noexcept;

/// Nanoseconds of a pass over all pictures, by step.
struct DecodeSteps {
  double header_ns = 0;
  double entropy_ns = 0;
  double inverse_dct_ns = 0;
  double upsample_colour_ns = 0;  ///< What is left of decoding whole pictures.
  double resize_store_ns = 0;     ///< Of regions whose pixels are there.
};

/// All that one round measured, in nanoseconds of a pass over all pictures.
struct DecodeRound {
  std::array<double, kDecodeWorks.size()> ours_ns{};
  std::array<double, kDecodeWorks.size()> libjpeg_ns{};
  double region_indexed_ns = 0;  ///< Ours, with the crop indexes that there are.
  DecodeSteps steps;             ///< Where they are wanted.
};

/// How many pictures are whose.
struct DecodeKinds {
  std::uint64_t feedrace = 0;
  std::uint64_t libjpeg_turbo = 0;  ///< Of a kind that ours leaves to it.
  const char* kind = nullptr;       ///< Of the last one of these.
  std::uint64_t damaged = 0;        ///< Begun by ours, ended by libjpeg-turbo.
  std::uint64_t crop_indexed = 0;   ///< Have a crop index.
  std::uint64_t left_out =
      0;  ///< Neither decodes it, it has no three colours, or it can't be read.
};

/// Decodes pictures in memory by our decoder and by libjpeg-turbo, on the calling thread. Times are
/// CPU times of the thread, so that other processes do not count.
class DecodeComparison {
 public:
  /// Throws Error kUnsupported where this machine can't run our decoder.
  explicit DecodeComparison(const ops::TensorFormat& format);

  /// Takes a picture once every pixel of it, its region, and every coefficient are libjpeg-turbo's.
  /// False: it is left out, and counted. Failure kCorruptData: something differs.
  Result<bool> add(std::string name, std::vector<std::byte> encoded, const PlanOfPicture& plan_of);

  /// Counts one that can't be read.
  void leave_out() noexcept { ++kinds_.left_out; }

  const std::vector<DecodePicture>& pictures() const noexcept { return pictures_; }
  const DecodeKinds& kinds() const noexcept { return kinds_; }
  std::uint64_t encoded_bytes() const noexcept { return encoded_bytes_; }
  std::uint64_t pixel_count() const noexcept { return pixel_count_; }
  std::uint64_t region_pixel_count() const noexcept { return region_pixel_count_; }

  /// Ours and libjpeg-turbo's in turn, each over all pictures; who begins changes from round to
  /// round.
  DecodeRound run_round(bool with_steps);

 private:
  void place_region(DecodePicture& picture, const DecodePlan& plan);
  Result<bool> compare_all(DecodePicture& picture);
  Result<void> compare_region(const DecodePicture& picture, const std::uint8_t* whole);
  Result<void> compare_plain_region(const DecodePicture& picture, const std::uint8_t* whole);
  Result<bool> compare_whole(const DecodePicture& picture, std::vector<std::uint8_t>& whole);
  void run_ours(DecodeWork work, const DecodePicture& picture);
  void decode_ours(const DecodePicture& picture, const decode::Region& region,
                   std::span<const std::byte> crop_index);
  void run_libjpeg(DecodeWork work, const DecodePicture& picture);
  double time_all(const std::function<void(const DecodePicture&)>& work);
  double time_resize();
  DecodeSteps time_steps(double full_ns);

  decode::JpegDecoder ours_;
  decode::LibjpegDecoder reference_;
  PlainLibjpeg libjpeg_;
  std::unique_ptr<JpegSteps> steps_;
  ops::FusedPass pass_;
  std::vector<DecodePicture> pictures_;
  std::vector<bool> is_ours_;  // Of each picture.
  DecodeKinds kinds_;
  std::uint64_t encoded_bytes_ = 0;
  std::uint64_t pixel_count_ = 0;
  std::uint64_t region_pixel_count_ = 0;
  std::uint64_t round_count_ = 0;
  std::vector<std::uint8_t> rgb_;
  std::vector<std::byte> batch_;  // Tensors of a batch, in turn.
};

}  // namespace feedrace::diagnose
