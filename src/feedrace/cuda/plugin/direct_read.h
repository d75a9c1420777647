// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "feedrace/cuda/plugin/direct.h"

namespace feedrace::cuda_plugin {

/// A piece of a file, and where it goes.
struct Extent {
  std::uint64_t base;  ///< What was registered.
  std::uint64_t bytes;
  std::uint64_t file_offset;
  std::uint64_t memory_offset;
};

/// Throws unless it is of whole blocks and its memory is registered.
void check_extent(const feedrace_cuda_file& file, const Extent& extent);

/// How much of it the file has now.
std::uint64_t expected_bytes(const feedrace_cuda_file& file, const Extent& extent);

/// Reads what is lacking behind the `come` bytes that came, counts all, and gives its size: short
/// only at the end of the file. Throws Refusal.
std::uint64_t finish_extent(feedrace_cuda_file& file, const Extent& extent, std::uint64_t come);

void add_direct_batches(feedrace_cuda_plugin& table);

}  // namespace feedrace::cuda_plugin
