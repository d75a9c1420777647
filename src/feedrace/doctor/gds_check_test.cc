// SPDX-License-Identifier: Apache-2.0
#include "feedrace/doctor/gds_check.h"

#include <gtest/gtest.h>

namespace feedrace::doctor {
namespace {

std::string report(const char* nvme, const char* allowed, const char* forced) {
  return std::string(
             " GDS release version: 1.13.1.3\n"
             " nvidia_fs version:  2.24 libcufile version: 2.12\n Platform: x86_64\n"
             " =====================\n DRIVER CONFIGURATION:\n =====================\n"
             " NVMe P2PDMA        : Unsupported\n NVMe               : ") +
         nvme + "\n NVMeOF             : Unsupported\n NFS                : Unsupported\n" +
         " CUFILE CONFIGURATION:\n properties.use_compat_mode : " + allowed +
         "\n properties.force_compat_mode : " + forced + "\n";
}

TEST(GdsCheck, ForcedCompatModeIsTheWayThroughHostMemory) {
  const GdsCheck found = parse_gds_check(report("Supported", "true", "true")).value();
  EXPECT_EQ(found.nvidia_fs, "2.24");
  EXPECT_TRUE(found.has_nvme);
  EXPECT_EQ(found.path, GdsPath::kCompat);
  EXPECT_EQ(found.because, "force_compat_mode");
}

TEST(GdsCheck, SupportedDrivesAreReadDirectly) {
  const GdsCheck found = parse_gds_check(report("Supported", "true", "false")).value();
  EXPECT_EQ(found.path, GdsPath::kDirect);
  EXPECT_EQ(found.because, "");
}

TEST(GdsCheck, WithoutSupportItFallsBackOrRefuses) {
  EXPECT_EQ(parse_gds_check(report("Unsupported", "true", "false"))->path, GdsPath::kCompat);
  const GdsCheck refused = parse_gds_check(report("Unsupported", "false", "false")).value();
  EXPECT_EQ(refused.path, GdsPath::kRefused);
  EXPECT_EQ(refused.because, "NVMe is unsupported");
  EXPECT_FALSE(refused.has_nvme);
}

TEST(GdsCheck, TheKernelsOwnWayCountsToo) {
  const GdsCheck found =
      parse_gds_check(
          "nvidia_fs version:  0.0 libcufile version: 2.12\nNVMe P2PDMA : Supported\n"
          "NVMe : Unsupported\nproperties.force_compat_mode : false\n")
          .value();
  EXPECT_EQ(found.nvidia_fs, "");
  EXPECT_EQ(found.path, GdsPath::kDirect);
}

TEST(GdsCheck, OtherTextTellsNothing) {
  for (const char* text : {"", "bash: gdscheck: command not found\n", "nvidia_fs version"}) {
    EXPECT_FALSE(parse_gds_check(text)) << text;
  }
}

}  // namespace
}  // namespace feedrace::doctor
