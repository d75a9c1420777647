// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "feedrace/ranks.h"

namespace feedrace::ranks {

/// The value of an environment variable, or null, as getenv gives it.
using Environment = std::function<const char*(const char* name)>;

/// Rank and world size from the arguments, else from the environment that a launcher made: the
/// first of torchrun, Open MPI, MPICH and Intel MPI, MVAPICH2, SLURM; else one process. Throws
/// Error kInvalidArgument: one of the two without the other, no whole number, a rank that is not
/// below the size, a size of 0; it names the variables and their values.
World find_world(std::optional<std::uint64_t> rank, std::optional<std::uint64_t> world_size,
                 const Environment& environment);

}  // namespace feedrace::ranks
