// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string_view>

namespace feedrace::verdict {

/// What `nvidia-smi dmon` printed: by GPU, the share of the time in which it ran anything, the mean
/// of all lines. Columns go by the name in the header, as they differ between versions; a "-" is
/// not counted. Throws Error kInvalidArgument where no line tells.
std::map<std::size_t, double> parse_gpu_dmon(std::string_view text);

/// Of the GPU that was busiest: the others wait for it, or are not used.
double busiest_gpu(std::string_view dmon_text);

}  // namespace feedrace::verdict
