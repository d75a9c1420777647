// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "feedrace/op.h"

namespace feedrace::ops {

/// The size that a whole picture is resized to, of which perhaps only a window is computed: a thin
/// picture's may be beyond what memory holds.
struct FullSize {
  std::uint64_t width_px = 0;
  std::uint64_t height_px = 0;

  friend bool operator==(const FullSize&, const FullSize&) = default;
};

/// Of a picture that is not resized.
FullSize full_size(ImageSize picture) noexcept;

/// torchvision's Resize(shorter_px, max_size=longest_px): the shorter side becomes `shorter_px`,
/// the other int(shorter_px * long / short); where that is beyond `longest_px`, it becomes
/// `longest_px` and the shorter one int(longest_px * shorter_px / that). `picture` is not empty,
/// `0 < shorter_px < longest_px`. Never less than a pixel, where torchvision fails.
FullSize resize_shorter(ImageSize picture, std::uint32_t shorter_px,
                        std::optional<std::uint32_t> longest_px = std::nullopt) noexcept;

/// torchvision's v2 Resize(None, max_size=longer_px): the longer side becomes `longer_px`, the
/// other int(longer_px * short / long), and at least a pixel. Nothing is empty.
FullSize resize_longer(ImageSize picture, std::uint32_t longer_px) noexcept;

}  // namespace feedrace::ops
