// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ranks/world.h"

#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"

namespace feedrace::ranks {
namespace {

/// Beyond any machine; a larger size is a variable that means something else.
constexpr std::uint64_t kMostRanks = std::uint64_t{1} << 20;

struct Launcher {
  const char* rank;
  const char* size;
  const char* name;
};

/// First wins: torchrun under SLURM sets both its own and inherits SLURM's, and its own are right.
constexpr std::array kLaunchers = {
    Launcher{"RANK", "WORLD_SIZE", "torchrun"},
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"},
    Launcher{"PMI_RANK", "PMI_SIZE", "MPICH, Intel MPI"},
    Launcher{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MVAPICH2"},
};

/// The size of the step, which srun starts, before that of the allocation, which may be larger.
constexpr std::array kSlurmSizes = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"};

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// Launchers and shells leave variables empty for "not set".
std::optional<std::string_view> value_of(const Environment& environment, const char* name) {
  const char* value = environment(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::uint64_t whole_number(const char* name, std::string_view text) {
  std::uint64_t value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || at != text.data() + text.size()) {
    refuse(
        fmt::format("{} is '{}', no whole number; set it as the launcher does, or give rank and "
                    "world_size",
                    name, printable(text)));
  }
  return value;
}

World checked(std::uint64_t rank, std::uint64_t size, std::string_view rank_name,
              std::string_view size_name, std::string source) {
  if (size == 0) refuse(fmt::format("{} is 0; give the number of processes, 1 or more", size_name));
  if (size > kMostRanks) {
    refuse(fmt::format("{} is {}, more than {} processes; give the number of processes", size_name,
                       size, with_commas(kMostRanks)));
  }
  if (rank >= size) {
    refuse(fmt::format("{} is {} and {} is {}; ranks go from 0 to {}", rank_name, rank, size_name,
                       size, size - 1));
  }
  return {rank, size, std::move(source)};
}

World from_pair(const char* rank_name, std::string_view rank, const char* size_name,
                std::string_view size, const char* launcher) {
  return checked(whole_number(rank_name, rank), whole_number(size_name, size), rank_name, size_name,
                 fmt::format("{} and {} ({})", rank_name, size_name, launcher));
}

std::optional<World> from_launcher(const Launcher& launcher, const Environment& environment) {
  const auto rank = value_of(environment, launcher.rank);
  const auto size = value_of(environment, launcher.size);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    refuse(fmt::format("{} is {}, but {} is not set; set both, or give rank and world_size",
                       rank ? launcher.rank : launcher.size, printable(rank ? *rank : *size),
                       rank ? launcher.size : launcher.rank));
  }
  return from_pair(launcher.rank, *rank, launcher.size, *size, launcher.name);
}

/// A size alone is no rank: the shell that salloc gives has it, and runs one process.
std::optional<World> from_slurm(const Environment& environment) {
  constexpr const char* kRank = "SLURM_PROCID";
  const auto rank = value_of(environment, kRank);
  if (!rank) return std::nullopt;
  for (const char* const name : kSlurmSizes) {
    if (const auto size = value_of(environment, name)) {
      return from_pair(kRank, *rank, name, *size, "SLURM");
    }
  }
  refuse(
      fmt::format("{} is {}, but none of {}, {} and {} is set; start with srun, or give rank and "
                  "world_size",
                  kRank, printable(*rank), kSlurmSizes[0], kSlurmSizes[1], kSlurmSizes[2]));
}

World from_arguments(std::optional<std::uint64_t> rank, std::optional<std::uint64_t> world_size) {
  if (!rank || !world_size) {
    refuse(fmt::format("{} is {}, but {} is not given; give both, or neither",
                       rank ? "rank" : "world_size", rank ? *rank : *world_size,
                       rank ? "world_size" : "rank"));
  }
  return checked(*rank, *world_size, "rank", "world_size", "arguments");
}

}  // namespace

World find_world(std::optional<std::uint64_t> rank, std::optional<std::uint64_t> world_size,
                 const Environment& environment) {
  if (rank || world_size) return from_arguments(rank, world_size);
  for (const Launcher& launcher : kLaunchers) {
    if (auto world = from_launcher(launcher, environment)) return *std::move(world);
  }
  if (auto world = from_slurm(environment)) return *std::move(world);
  return {0, 1, "one process"};
}

}  // namespace feedrace::ranks
