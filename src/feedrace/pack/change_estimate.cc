// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/change_estimate.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/decode/image_decoder.h"
#include "feedrace/ops/fused_pass.h"
#include "feedrace/ops/random_resized_crop.h"
#include "feedrace/random.h"

namespace feedrace::pack {
namespace {

constexpr std::uint32_t kOutputPx = 224;
/// The usual training crop.
constexpr std::array<double, 2> kScale = {0.08, 1.0};
constexpr std::array<double, 2> kRatio = {3.0 / 4.0, 4.0 / 3.0};
/// So many of each picture: a decoded one's takes less than the clock should be asked about.
constexpr std::uint32_t kCropsEach = 8;
/// Of encoded pictures: large ones say enough in a smaller number.
constexpr std::uint64_t kEnoughBytes = std::uint64_t{32} << 20;
/// Of crops: by then the rates are known.
constexpr double kEnoughSeconds = 1;
constexpr std::uint32_t kCropOp = 0;
constexpr std::uint32_t kChoiceOp = 1;

/// Other load of the machine does not count.
double thread_seconds() noexcept {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Makes training crops as the loader does.
class CropTimer {
 public:
  CropTimer()
      : decoder_({}, true),
        pass_({DType::kFloat16,
               Layout::kChw,
               {kImagenetMean.begin(), kImagenetMean.end()},
               {kImagenetStd.begin(), kImagenetStd.end()}}),
        tensor_(pass_.tensor_bytes({kOutputPx, kOutputPx})) {}

  /// CPU seconds of `kCropsEach` crops.
  Result<double> run(std::string_view encoded, std::span<const std::byte> crop_index,
                     std::uint64_t number, std::uint64_t seed) {
    const double begin = thread_seconds();
    for (std::uint32_t draw = 0; draw < kCropsEach; ++draw) {
      SampleRandom random(seed, draw, number, kCropOp);
      auto made = crop(std::as_bytes(std::span(encoded)), crop_index, random);
      if (!made) return made.error();
    }
    return thread_seconds() - begin;
  }

 private:
  Result<void> crop(std::span<const std::byte> encoded, std::span<const std::byte> crop_index,
                    SampleRandom& random) {
    const auto info = decoder_.open(encoded, crop_index);
    if (!info) return info.error();
    const ops::CropBox box =
        ops::draw_random_resized_crop({info->width_px, info->height_px}, kScale, kRatio, random);
    const ops::ImageSize output{kOutputPx, kOutputPx};
    const bool is_flipped = ops::draw_flip(0.5, random);
    pass_.begin({ops::resize_to({box.width_px, box.height_px}, output), is_flipped},
                tensor_.data());
    const ops::CropBox part = pass_.source();
    const decode::Region region{box.x_px + part.x_px, box.y_px + part.y_px, part.width_px,
                                part.height_px};
    if (auto begun = decoder_.begin(region); !begun) return begun;
    if (const decode::PixelRows rows = decoder_.rows_in_place(); rows.rgb != nullptr) {
      pass_.push_rows(rows.rgb, rows.row_bytes, region.height_px);
      return {};
    }
    const std::size_t row_bytes = std::size_t{3} * region.width_px;
    band_.resize(row_bytes * ops::FusedPass::kBandRows);
    while (const std::uint32_t rows = pass_.rows_wanted()) {
      if (auto read = decoder_.read_rows(band_.data(), row_bytes, rows); !read) return read;
      pass_.push_rows(band_.data(), row_bytes, rows);
    }
    return {};
  }

  decode::ImageDecoder decoder_;
  ops::FusedPass pass_;
  std::vector<std::byte> tensor_;
  std::vector<std::uint8_t> band_;
};

/// Sums over the pictures that could be changed.
struct Sums {
  std::size_t count = 0;
  double now_bytes = 0;
  double changed_bytes = 0;
  double changed_bytes_squared = 0;
  double largest_changed_bytes = 0;
  std::size_t timed_count = 0;
  double now_seconds = 0;
  double changed_seconds = 0;
};

/// `count` different numbers below `picture_count`, in the order in which they are drawn.
std::vector<std::uint64_t> choose(std::uint64_t picture_count, std::size_t count,
                                  std::uint64_t seed) {
  std::vector<std::uint64_t> chosen;
  std::set<std::uint64_t> known;
  SampleRandom random(seed, 0, 0, kChoiceOp);
  const std::uint64_t wanted = std::min<std::uint64_t>(count, picture_count);
  while (chosen.size() < wanted) {
    // Of a small set nearly all may be wanted: then as they come.
    const std::uint64_t number =
        wanted * 2 > picture_count ? chosen.size() : random.below(picture_count);
    if (known.insert(number).second) chosen.push_back(number);
  }
  return chosen;
}

Result<void> add(PictureChanger& changer, CropTimer& timer, const StoredPicture& picture,
                 std::uint64_t number, std::uint64_t seed, Sums& sums) {
  const auto made = changer.change(picture.bytes, "jpg");
  if (!made) return made.error();
  const auto size = static_cast<double>(made->bytes.size());
  ++sums.count;
  sums.now_bytes += static_cast<double>(picture.bytes.size());
  sums.changed_bytes += size;
  sums.changed_bytes_squared += size * size;
  sums.largest_changed_bytes = std::max(sums.largest_changed_bytes, size);
  if (sums.now_seconds + sums.changed_seconds > kEnoughSeconds) return {};
  const auto now = timer.run(picture.bytes, picture.crop_index, number, seed);
  const auto changed = timer.run(made->bytes, {}, number, seed);
  if (!now || !changed) return {};  // By its bytes it counts all the same.
  ++sums.timed_count;
  sums.now_seconds += *now;
  sums.changed_seconds += *changed;
  return {};
}

/// Twice the standard error of the mean; of what was not drawn alone, where most of it was.
double error_of(const Sums& sums, std::uint64_t picture_count) {
  const auto count = static_cast<double>(sums.count);
  if (sums.count < 2) return 0;
  const double mean = sums.changed_bytes / count;
  const double variance =
      std::max(0.0, (sums.changed_bytes_squared - count * mean * mean) / (count - 1));
  const double unseen = 1 - count / static_cast<double>(picture_count);
  return 2 * std::sqrt(variance / count * std::max(0.0, unseen));
}

double ratio(double above, double below) noexcept { return below > 0 ? above / below : 0; }

}  // namespace

std::uint64_t ChangeEstimate::set_bytes() const noexcept {
  return static_cast<std::uint64_t>(changed_bytes * static_cast<double>(picture_count));
}

double ChangeEstimate::size_ratio() const noexcept { return ratio(changed_bytes, now_bytes); }
double ChangeEstimate::speed_ratio() const noexcept {
  return ratio(changed_per_second, now_per_second);
}

std::string ChangeEstimate::to_text() const {
  std::string text =
      fmt::format("{} of {} pictures looked at", looked_at, with_commas(picture_count));
  if (failed > 0) {
    text += fmt::format(", {} of them can't be changed (the first: {})", failed, first_failure);
  }
  if (failed == looked_at) return text;
  text += fmt::format(
      ": changed they take {} each (+- {:.1f} %), {} in all, {:.1f} x the bytes of now",
      human_bytes(static_cast<std::uint64_t>(changed_bytes)),
      100 * ratio(changed_bytes_error, changed_bytes), human_bytes(set_bytes()), size_ratio());
  if (speed_ratio() == 0) return text;
  return text + fmt::format(
                    "; one core makes {} training crops a second of them instead of {}, "
                    "{:.1f} x as many, reading apart",
                    with_commas(static_cast<std::uint64_t>(changed_per_second)),
                    with_commas(static_cast<std::uint64_t>(now_per_second)), speed_ratio());
}

ChangeEstimate estimate_change(const PictureChange& change, std::uint64_t picture_count,
                               const ReadPicture& read, std::size_t sample_count,
                               std::uint64_t seed) {
  ChangeEstimate estimate;
  estimate.picture_count = picture_count;
  PictureChanger changer(change);
  CropTimer timer;
  Sums sums;
  std::uint64_t looked_bytes = 0;
  for (const std::uint64_t number : choose(picture_count, sample_count, seed)) {
    if (looked_bytes > kEnoughBytes) break;
    ++estimate.looked_at;
    const Result<StoredPicture> picture = read(number);
    Result<void> added =
        picture ? add(changer, timer, *picture, number, seed, sums) : Result<void>(picture.error());
    if (picture) looked_bytes += picture->bytes.size();
    if (added) continue;
    if (estimate.failed++ == 0) {
      estimate.first_failure = added.error().message;
      estimate.first_failed_picture = number;
    }
  }
  if (sums.count == 0) return estimate;
  const auto count = static_cast<double>(sums.count);
  estimate.now_bytes = sums.now_bytes / count;
  estimate.changed_bytes = sums.changed_bytes / count;
  estimate.changed_bytes_error = error_of(sums, picture_count);
  estimate.largest_changed_bytes = sums.largest_changed_bytes;
  const auto crops = static_cast<double>(sums.timed_count * kCropsEach);
  estimate.now_per_second = ratio(crops, sums.now_seconds);
  estimate.changed_per_second = ratio(crops, sums.changed_seconds);
  return estimate;
}

}  // namespace feedrace::pack
