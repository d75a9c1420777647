// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/decode_comparison.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "feedrace/jpeg/crop_index.h"

namespace feedrace::diagnose {
namespace {

// Tensors are stored as in a batch of this many, so that they do not stay in the nearest cache.
constexpr std::size_t kBatchTensors = 64;
// Plain libjpeg mixes chroma at the sides of its crop with nothing; so far in, that is over.
constexpr std::uint32_t kOddEdgePx = 2;
// Below this width it may take another way of upsampling than in the whole picture.
constexpr std::uint32_t kNarrowPx = 32;

std::size_t row_bytes_of(std::uint32_t width_px) { return std::size_t{3} * width_px; }

Failure difference(const DecodePicture& picture, std::string_view what) {
  return {ErrorCode::kCorruptData,
          fmt::format("{}: {}; please report it, and take --jpeg-engine libjpeg-turbo until then",
                      picture.name, what)};
}

}  // namespace

const char* to_string(DecodeWork work) noexcept {
  constexpr std::array<const char*, kDecodeWorks.size()> kNames = {"full", "entropy", "region"};
  return kNames[static_cast<std::size_t>(work)];
}

DecodeComparison::DecodeComparison(const ops::TensorFormat& format)
    : steps_(JpegSteps::make()), pass_(format) {
  if (steps_ == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                "bench decode: this machine has none of the instructions that Feedrace's JPEG "
                "decoder is written for; libjpeg-turbo decodes everything here");
  }
}

Result<bool> DecodeComparison::add(std::string name, std::vector<std::byte> encoded,
                                   const PlanOfPicture& plan_of) {
  const auto info = reference_.accepts(encoded) ? reference_.probe(encoded, {})
                                                : Failure{ErrorCode::kUnsupported, "no JPEG"};
  if (!info || info->component_count == 4) {
    ++kinds_.left_out;
    return false;
  }
  DecodePicture picture{std::move(name), std::move(encoded), *info, {}, {}, {}};
  place_region(picture, plan_of(*info));
  auto is_good = compare_all(picture);
  if (!is_good || !*is_good) return is_good;
  encoded_bytes_ += picture.encoded.size();
  pixel_count_ += std::uint64_t{info->width_px} * info->height_px;
  region_pixel_count_ += std::uint64_t{picture.region.width_px} * picture.region.height_px;
  pictures_.push_back(std::move(picture));
  return true;
}

void DecodeComparison::place_region(DecodePicture& picture, const DecodePlan& plan) {
  picture.plan = plan.pass;
  const std::size_t tensor_bytes = pass_.tensor_bytes(plan.pass.resize.output);
  batch_.resize(std::max(batch_.size(), kBatchTensors * tensor_bytes));
  pass_.begin(plan.pass, batch_.data());
  const ops::CropBox& source = pass_.source();
  picture.region = {plan.crop.x_px + source.x_px, plan.crop.y_px + source.y_px, source.width_px,
                    source.height_px};
}

/// False: neither of the two decodes it.
Result<bool> DecodeComparison::compare_all(DecodePicture& picture) {
  std::vector<std::uint8_t> whole;
  auto is_decoded = compare_whole(picture, whole);
  if (!is_decoded || !*is_decoded) return is_decoded;
  const bool was_ours = ours_.engine() == decode::JpegEngine::kFeedrace;
  if (auto same = compare_region(picture, whole.data()); !same) return same.error();
  if (auto made = jpeg::make_crop_index(picture.encoded)) {
    picture.crop_index = *std::move(made);
    ++kinds_.crop_indexed;
    if (auto same = compare_region(picture, whole.data()); !same) return same.error();
  }
  if (auto same = compare_plain_region(picture, whole.data()); !same) return same.error();
  const char* unusual = steps_->unusual(picture.encoded);
  is_ours_.push_back(unusual == nullptr && was_ours);
  if (unusual != nullptr) {
    ++kinds_.libjpeg_turbo;
    kinds_.kind = unusual;
  } else if (!was_ours) {
    ++kinds_.damaged;
  } else {
    ++kinds_.feedrace;
    if (auto same = steps_->compare(picture.encoded, libjpeg_); !same) {
      return difference(picture, same.error().message);
    }
  }
  return true;
}

/// Gives the whole picture's pixels; false where neither of the two does.
Result<bool> DecodeComparison::compare_whole(const DecodePicture& picture,
                                             std::vector<std::uint8_t>& whole) {
  const std::size_t row_bytes = row_bytes_of(picture.info.width_px);
  const decode::Region all = picture.info.whole();
  whole.resize(row_bytes * all.height_px);
  rgb_.resize(std::max(rgb_.size(), whole.size()));
  const auto read = [&](decode::Decoder& decoder, std::uint8_t* to) {
    auto begun = decoder.begin(picture.encoded, all, {});
    return begun ? decoder.read_rows(to, row_bytes, all.height_px) : begun;
  };
  const auto theirs = read(reference_, whole.data());
  ours_.set_crop_index({});
  const auto own = read(ours_, rgb_.data());
  if (!theirs && !own) {
    ++kinds_.left_out;
    return false;
  }
  if (!own) return difference(picture, "ours does not decode it: " + own.error().message);
  if (!theirs) return difference(picture, "libjpeg-turbo alone errs: " + theirs.error().message);
  if (!std::equal(whole.begin(), whole.end(), rgb_.begin())) {
    return difference(picture, "a pixel of the whole picture differs");
  }
  return true;
}

Result<void> DecodeComparison::compare_region(const DecodePicture& picture,
                                              const std::uint8_t* whole) {
  const decode::Region& region = picture.region;
  const std::size_t row_bytes = row_bytes_of(region.width_px);
  const std::size_t whole_row_bytes = row_bytes_of(picture.info.width_px);
  ours_.set_crop_index(picture.crop_index);
  auto read = ours_.begin(picture.encoded, region, {});
  if (read) read = ours_.read_rows(rgb_.data(), row_bytes, region.height_px);
  if (!read) return difference(picture, "ours does not decode a region: " + read.error().message);
  for (std::uint32_t y = 0; y < region.height_px; ++y) {
    const std::uint8_t* row =
        whole + (region.y_px + y) * whole_row_bytes + row_bytes_of(region.x_px);
    if (std::memcmp(rgb_.data() + y * row_bytes, row, row_bytes) != 0) {
      return difference(picture,
                        fmt::format("a pixel of the region {},{} {}x{} differs", region.x_px,
                                    region.y_px, region.width_px, region.height_px));
    }
  }
  return {};
}

/// What is measured as libjpeg-turbo's region must be that region, but for its odd edges.
Result<void> DecodeComparison::compare_plain_region(const DecodePicture& picture,
                                                    const std::uint8_t* whole) {
  const decode::Region& region = picture.region;
  const std::size_t row_bytes = row_bytes_of(picture.info.width_px);
  const auto placed = libjpeg_.read_region(picture.encoded, region, rgb_.data(), row_bytes);
  if (!placed) return difference(picture, "libjpeg-turbo's region: " + placed.error().message);
  if (placed->width_px < kNarrowPx || region.height_px <= 2 * kOddEdgePx) return {};
  const std::size_t inner_bytes = row_bytes_of(placed->width_px - 2 * kOddEdgePx);
  for (std::uint32_t y = kOddEdgePx; y < region.height_px - kOddEdgePx; ++y) {
    const std::uint8_t* row =
        whole + (region.y_px + y) * row_bytes + row_bytes_of(placed->x_px + kOddEdgePx);
    if (std::memcmp(rgb_.data() + y * row_bytes + row_bytes_of(kOddEdgePx), row, inner_bytes) !=
        0) {
      return difference(picture, "libjpeg-turbo's crop is not that part of its whole picture");
    }
  }
  return {};
}

void DecodeComparison::run_ours(DecodeWork work, const DecodePicture& picture) {
  if (work == DecodeWork::kEntropy) {
    // What is not ours takes libjpeg's way here as it does in a loader.
    const bool is_ours = is_ours_[static_cast<std::size_t>(&picture - pictures_.data())];
    if (is_ours) {
      static_cast<void>(steps_->decode(picture.encoded));
    } else {
      static_cast<void>(libjpeg_.read_coefficients(picture.encoded));
    }
    return;
  }
  decode_ours(picture, work == DecodeWork::kFull ? picture.info.whole() : picture.region, {});
}

void DecodeComparison::decode_ours(const DecodePicture& picture, const decode::Region& region,
                                   std::span<const std::byte> crop_index) {
  ours_.set_crop_index(crop_index);
  if (ours_.begin(picture.encoded, region, {})) {
    static_cast<void>(
        ours_.read_rows(rgb_.data(), row_bytes_of(region.width_px), region.height_px));
  }
}

void DecodeComparison::run_libjpeg(DecodeWork work, const DecodePicture& picture) {
  const std::size_t row_bytes = row_bytes_of(picture.info.width_px);
  switch (work) {
    case DecodeWork::kFull:
      static_cast<void>(libjpeg_.read(picture.encoded, rgb_.data(), row_bytes));
      return;
    case DecodeWork::kEntropy:
      static_cast<void>(libjpeg_.read_coefficients(picture.encoded));
      return;
    case DecodeWork::kRegion:
      static_cast<void>(
          libjpeg_.read_region(picture.encoded, picture.region, rgb_.data(), row_bytes));
      return;
  }
}

double DecodeComparison::time_all(const std::function<void(const DecodePicture&)>& work) {
  const std::uint64_t start = thread_ns();
  for (const DecodePicture& picture : pictures_) work(picture);
  return static_cast<double>(thread_ns() - start);
}

/// Of regions whose pixels are there; those are decoded outside of the time.
double DecodeComparison::time_resize() {
  std::uint64_t spent_ns = 0;
  std::size_t slot = 0;
  for (const DecodePicture& picture : pictures_) {
    const std::size_t row_bytes = row_bytes_of(picture.region.width_px);
    run_ours(DecodeWork::kRegion, picture);
    const std::uint64_t start = thread_ns();
    const std::size_t tensor_bytes = pass_.tensor_bytes(picture.plan.resize.output);
    pass_.begin(picture.plan, batch_.data() + slot * tensor_bytes);
    const std::uint8_t* rows = rgb_.data();
    while (const std::uint32_t count = pass_.rows_wanted()) {
      pass_.push_rows(rows, row_bytes, count);
      rows += count * row_bytes;
    }
    spent_ns += thread_ns() - start;
    slot = (slot + 1) % kBatchTensors;
  }
  return static_cast<double>(spent_ns);
}

DecodeSteps DecodeComparison::time_steps(double full_ns) {
  const double header_ns =
      time_all([&](const DecodePicture& each) { static_cast<void>(steps_->begin(each.encoded)); });
  const double decoded_ns =
      time_all([&](const DecodePicture& each) { static_cast<void>(steps_->decode(each.encoded)); });
  const double transformed_ns = time_all(
      [&](const DecodePicture& each) { static_cast<void>(steps_->transform(each.encoded)); });
  return {header_ns, decoded_ns - header_ns, transformed_ns - decoded_ns, full_ns - transformed_ns,
          time_resize()};
}

DecodeRound DecodeComparison::run_round(bool with_steps) {
  const bool is_libjpeg_first = round_count_++ % 2 == 1;
  DecodeRound round;
  for (const DecodeWork work : kDecodeWorks) {
    const auto at = static_cast<std::size_t>(work);
    const auto ours = [&] {
      round.ours_ns[at] = time_all([&](const DecodePicture& each) { run_ours(work, each); });
    };
    if (!is_libjpeg_first) ours();
    round.libjpeg_ns[at] = time_all([&](const DecodePicture& each) { run_libjpeg(work, each); });
    if (is_libjpeg_first) ours();
  }
  round.region_indexed_ns =
      time_all([&](const DecodePicture& each) { decode_ours(each, each.region, each.crop_index); });
  if (with_steps) round.steps = time_steps(round.ours_ns[0]);
  return round;
}

}  // namespace feedrace::diagnose
