// SPDX-License-Identifier: Apache-2.0
// The cases of kind "diagnosis" in tests/cases: texts of a host, and what must be read from them.

#include <cstdint>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/cores.h"
#include "feedrace/doctor/gds_check.h"
#include "feedrace/host/host_load.h"
#include "feedrace/host/sys_text.h"
#include "feedrace/verdict/gpu_dmon.h"
#include "feedrace/verdict/rules.h"

namespace feedrace::tools {
namespace {

using Json = nlohmann::json;

const std::string kFolder = FEEDRACE_TEST_DATA "/cases/";

std::string text_in(const Json& one, const char* member) {
  std::string text = host::text_of(kFolder + one.at(member).get<std::string>());
  EXPECT_FALSE(text.empty()) << one.at(member);
  return text;
}

void check_cgroup(const Json& one) {
  const auto cores = parse_cpu_max(text_in(one, "file"));
  const Json& wanted = one.at("expect").at("cpus");
  EXPECT_EQ(cores.has_value(), !wanted.is_null());
  if (cores) {
    EXPECT_EQ(*cores, wanted.get<double>());
  }
}

void check_diskstats(const Json& one) {
  const Json& wanted = one.at("expect").at("values");
  const auto name = wanted.at("device").get<std::string>();
  host::HostCounters before;
  host::HostCounters after;
  after.at_seconds = one.at("params").at("seconds");
  before.disks.push_back(host::parse_disk(text_in(one, "file"), name).value());
  after.disks.push_back(host::parse_disk(text_in(one, "file2"), name).value());
  const host::HostRates::Disk disk = host::rates_between(before, after).disk.value();
  const double tolerance = one.at("expect").at("tolerance_share");
  const auto expect_near = [&](double found, const char* what) {
    const double value = wanted.at(what);
    EXPECT_NEAR(found, value, tolerance * value) << what;
  };
  constexpr double kKib = 1024;
  expect_near(disk.reads_a_second, "read_iops");
  expect_near(disk.bytes_a_second / (kKib * kKib), "read_mib_s");
  expect_near(disk.mean_read_bytes / kKib, "avg_read_kib");
  expect_near(disk.read_ms, "read_latency_ms");
  expect_near(disk.busy_share, "busy_share");
  expect_near(disk.queue_mean, "queue_avg");
}

void check_dmon(const Json& one) {
  const auto found = verdict::parse_gpu_dmon(text_in(one, "file"));
  const Json& wanted = one.at("expect").at("mean_sm_percent");
  EXPECT_EQ(found.size(), wanted.size());
  for (const auto& [gpu, share] : found) {
    EXPECT_NEAR(100 * share, wanted.at(std::to_string(gpu)).get<double>(), 1e-9);
  }
}

void check_gds(const Json& one) {
  const auto found = doctor::parse_gds_check(text_in(one, "file")).value();
  const Json& wanted = one.at("expect").at("values");
  EXPECT_EQ(found.nvidia_fs, wanted.at("nvidia_fs"));
  EXPECT_EQ(found.has_nvme, wanted.at("nvme").get<bool>());
  EXPECT_EQ(doctor::to_string(found.path), wanted.at("path").get<std::string>());
  EXPECT_EQ(found.because, wanted.at("because"));
}

void check_meminfo(const Json& one) {
  const auto found = host::parse_memory(text_in(one, "file")).value();
  const Json& wanted = one.at("expect").at("values");
  EXPECT_EQ(found.page_cache_bytes, wanted.at("page_cache_kib").get<std::uint64_t>() * 1024);
  EXPECT_EQ(found.available_bytes, wanted.at("available_kib").get<std::uint64_t>() * 1024);
}

/// What the cases call what limits, and how a verdict begins that means the same.
const char* begin_of(const std::string& bottleneck) {
  if (bottleneck == "not the loader: batches wait for the training loop") {
    return "the consumer limits";
  }
  if (bottleneck == "none: the GPU is the limit") return "the GPU limits";
  return bottleneck == "storage" ? "storage limits" : "unknown";
}

void check_verdict(const Json& one) {
  const Json& seen = one.at("params");
  verdict::Facts facts;
  facts.batches = 100;
  facts.prefetch_factor = 3;
  facts.gpu_busy_share = seen.at("gpu_busy").get<double>();
  facts.ready_batches = seen.at("queue_ready_batches_mean").get<double>();
  facts.cached_share = seen.at("page_cache_hits").get<double>();
  facts.host.cpu_busy_share = seen.at("cpu_busy").get<double>();
  host::HostRates::Disk disk;
  disk.busy_share = seen.at("disk_busy");
  disk.queue_mean = seen.at("disk_queue");
  facts.host.disk = disk;
  EXPECT_THAT(verdict::judge(facts).to_text(),
              ::testing::StartsWith(begin_of(one.at("expect").at("bottleneck"))));
}

TEST(DiagnosisCases, GiveTheirValues) {
  std::ifstream file(kFolder + "expectations.json");
  const Json all = Json::parse(file);
  std::size_t count = 0;
  for (const Json& one : all.at("cases")) {
    if (one.at("kind") != "diagnosis") continue;
    SCOPED_TRACE(one.at("id").get<std::string>());
    const std::string sub = one.at("sub");
    ++count;
    if (sub == "cgroup") {
      check_cgroup(one);
    } else if (sub == "diskstats") {
      check_diskstats(one);
    } else if (sub == "dmon") {
      check_dmon(one);
    } else if (sub == "gds") {
      check_gds(one);
    } else if (sub == "meminfo") {
      check_meminfo(one);
    } else {
      ASSERT_EQ(sub, "verdict");
      check_verdict(one);
    }
  }
  EXPECT_EQ(count, 10U);
}

}  // namespace
}  // namespace feedrace::tools
