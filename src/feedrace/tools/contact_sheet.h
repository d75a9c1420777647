// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "feedrace/loader.h"
#include "feedrace/view/report.h"

namespace feedrace::tools {

/// The first `count` pictures of a batch, normalisation undone, at most `side_px` high and wide.
/// Empty where the batch has none: it was not decoded, or holds raw samples.
std::vector<view::Thumbnail> thumbnails(const Batch& batch, const Pipeline& pipeline,
                                        const std::vector<std::string>& classes, std::size_t count,
                                        std::size_t side_px);

}  // namespace feedrace::tools
