// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/resize_target.h"

#include <algorithm>

namespace feedrace::ops {
namespace {

/// Python's int(side * numerator / denominator), a division of doubles; at least 1.
std::uint64_t scaled(std::uint64_t side, std::uint64_t numerator, std::uint64_t denominator) {
  const double quotient = static_cast<double>(side * numerator) / static_cast<double>(denominator);
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(quotient), 1);
}

FullSize oriented(ImageSize picture, std::uint64_t shorter_px, std::uint64_t longer_px) {
  if (picture.width_px <= picture.height_px) return {shorter_px, longer_px};
  return {longer_px, shorter_px};
}

}  // namespace

FullSize full_size(ImageSize picture) noexcept { return {picture.width_px, picture.height_px}; }

FullSize resize_shorter(ImageSize picture, std::uint32_t shorter_px,
                        std::optional<std::uint32_t> longest_px) noexcept {
  const auto [shorter, longer] = std::minmax({picture.width_px, picture.height_px});
  const std::uint64_t new_longer_px = scaled(shorter_px, longer, shorter);
  if (!longest_px || new_longer_px <= *longest_px) {
    return oriented(picture, shorter_px, new_longer_px);
  }
  return oriented(picture, scaled(*longest_px, shorter_px, new_longer_px), *longest_px);
}

FullSize resize_longer(ImageSize picture, std::uint32_t longer_px) noexcept {
  const auto [shorter, longer] = std::minmax({picture.width_px, picture.height_px});
  return oriented(picture, scaled(longer_px, shorter, longer), longer_px);
}

}  // namespace feedrace::ops
