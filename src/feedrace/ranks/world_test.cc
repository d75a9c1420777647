// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ranks/world.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"

namespace feedrace::ranks {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

World found_in(const Variables& variables, std::optional<std::uint64_t> rank = {},
               std::optional<std::uint64_t> world_size = {}) {
  return find_world(rank, world_size, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string message_of(const Variables& variables, std::optional<std::uint64_t> rank = {},
                       std::optional<std::uint64_t> world_size = {}) {
  try {
    found_in(variables, rank, world_size);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "no error";
}

TEST(FindWorld, IsOneProcessWithoutALauncher) {
  const World world = found_in({});
  EXPECT_EQ(world.rank, 0U);
  EXPECT_EQ(world.size, 1U);
  EXPECT_EQ(world.source, "one process");
}

TEST(FindWorld, KnowsEachLauncher) {
  const struct {
    const char* rank;
    const char* size;
    const char* source;
  } cases[] = {
      {"RANK", "WORLD_SIZE", "RANK and WORLD_SIZE (torchrun)"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE (Open MPI)"},
      {"PMI_RANK", "PMI_SIZE", "PMI_RANK and PMI_SIZE (MPICH, Intel MPI)"},
      {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
       "MV2_COMM_WORLD_RANK and MV2_COMM_WORLD_SIZE (MVAPICH2)"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID and SLURM_STEP_NUM_TASKS (SLURM)"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_PROCID and SLURM_NTASKS (SLURM)"},
      {"SLURM_PROCID", "SLURM_NPROCS", "SLURM_PROCID and SLURM_NPROCS (SLURM)"},
  };
  for (const auto& launcher : cases) {
    const World world = found_in({{launcher.rank, "3"}, {launcher.size, "8"}});
    EXPECT_EQ(world.rank, 3U);
    EXPECT_EQ(world.size, 8U);
    EXPECT_EQ(world.source, launcher.source);
  }
}

TEST(FindWorld, TakesTheFirstLauncherOfSeveral) {
  const World world = found_in({{"SLURM_PROCID", "1"},
                                {"SLURM_NTASKS", "2"},
                                {"PMI_RANK", "1"},
                                {"PMI_SIZE", "2"},
                                {"RANK", "9"},
                                {"WORLD_SIZE", "16"}});
  EXPECT_EQ(world.rank, 9U);
  EXPECT_EQ(world.size, 16U);
}

TEST(FindWorld, TakesTheStepsTasksBeforeTheAllocations) {
  EXPECT_EQ(found_in({{"SLURM_PROCID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "2"},
                      {"SLURM_NTASKS", "8"},
                      {"SLURM_NPROCS", "9"}})
                .size,
            2U);
  EXPECT_EQ(found_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_NPROCS", "9"}}).size,
            8U);
}

TEST(FindWorld, ArgumentsWinOverTheEnvironment) {
  const World world = found_in({{"RANK", "broken"}}, 2, 4);
  EXPECT_EQ(world.rank, 2U);
  EXPECT_EQ(world.size, 4U);
  EXPECT_EQ(world.source, "arguments");
}

TEST(FindWorld, OneArgumentAloneIsAnError) {
  EXPECT_EQ(message_of({{"RANK", "0"}, {"WORLD_SIZE", "4"}}, 3, {}),
            "rank is 3, but world_size is not given; give both, or neither");
  EXPECT_EQ(message_of({}, {}, 4), "world_size is 4, but rank is not given; give both, or neither");
}

TEST(FindWorld, OneVariableOfAPairIsAnError) {
  EXPECT_EQ(message_of({{"RANK", "3"}}),
            "RANK is 3, but WORLD_SIZE is not set; set both, or give rank and world_size");
  EXPECT_THAT(message_of({{"WORLD_SIZE", "8"}}), HasSubstr("WORLD_SIZE is 8, but RANK is not set"));
  EXPECT_THAT(message_of({{"PMI_RANK", "0"}}), HasSubstr("PMI_SIZE is not set"));
  EXPECT_THAT(message_of({{"OMPI_COMM_WORLD_SIZE", "2"}}),
              HasSubstr("OMPI_COMM_WORLD_RANK is not set"));
  EXPECT_THAT(message_of({{"MV2_COMM_WORLD_RANK", "0"}}),
              HasSubstr("MV2_COMM_WORLD_SIZE is not set"));
  EXPECT_THAT(message_of({{"SLURM_PROCID", "0"}}),
              AllOf(HasSubstr("SLURM_PROCID is 0"), HasSubstr("SLURM_NPROCS")));
}

TEST(FindWorld, AnEmptyVariableIsNotSet) {
  EXPECT_EQ(found_in({{"RANK", ""}, {"WORLD_SIZE", ""}}).size, 1U);
  EXPECT_THAT(message_of({{"RANK", "1"}, {"WORLD_SIZE", ""}}), HasSubstr("WORLD_SIZE is not set"));
}

TEST(FindWorld, ASlurmAllocationsShellIsOneProcess) {
  const World world = found_in({{"SLURM_NTASKS", "8"}, {"SLURM_NPROCS", "8"}});
  EXPECT_EQ(world.size, 1U);
  EXPECT_EQ(world.source, "one process");
}

TEST(FindWorld, RefusesWhatIsNoWholeNumber) {
  for (const char* text : {"-1", "+1", " 1", "1 ", "1.0", "0x1", "one", "99999999999999999999"}) {
    EXPECT_THAT(message_of({{"RANK", text}, {"WORLD_SIZE", "4"}}),
                HasSubstr("RANK is '" + std::string(text) + "', no whole number"));
    EXPECT_THAT(message_of({{"RANK", "0"}, {"WORLD_SIZE", text}}),
                HasSubstr("WORLD_SIZE is '" + std::string(text) + "', no whole number"));
  }
  EXPECT_THAT(message_of({{"RANK", "1\n2"}, {"WORLD_SIZE", "4"}}), HasSubstr("1\\x0a2"));
}

TEST(FindWorld, RefusesARankThatIsNotBelowTheSize) {
  EXPECT_EQ(message_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}}),
            "RANK is 4 and WORLD_SIZE is 4; ranks go from 0 to 3");
  EXPECT_EQ(message_of({}, 9, 4), "rank is 9 and world_size is 4; ranks go from 0 to 3");
  EXPECT_EQ(found_in({}, 3, 4).rank, 3U);
}

TEST(FindWorld, RefusesSizesThatNoJobHas) {
  EXPECT_THAT(message_of({}, 0, 0), HasSubstr("world_size is 0"));
  EXPECT_THAT(message_of({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE is 0"));
  EXPECT_EQ(found_in({}, 0, 1 << 20).size, std::uint64_t{1} << 20);
  EXPECT_THAT(message_of({}, 0, (1 << 20) + 1), HasSubstr("world_size is 1048577"));
}

}  // namespace
}  // namespace feedrace::ranks
