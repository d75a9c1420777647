// SPDX-License-Identifier: Apache-2.0
// How many members a minute does one thread find in a shard that is in memory? Small members (a
// label each) are the hardest, photographs with labels the usual case. Run:
// build/release/bin/feedrace_formats_bench

#include <stdlib.h>

#include <filesystem>
#include <string>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "feedrace/formats/shard_scan.h"
#include "feedrace/formats/test_tar.h"

namespace feedrace::formats {
namespace {

/// A shard of `count` samples with an image of `image_bytes` each.
std::string packed(std::size_t count, std::size_t image_bytes) {
  testing::TarText tar;
  for (std::size_t i = 0; i < count; ++i) {
    tar.add(fmt::format("{:08}.jpg", i), std::string(image_bytes, 'x'))
        .add(fmt::format("{:08}.cls", i), "7");
  }
  return tar.end().text();
}

void scan_samples(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  std::string path = std::filesystem::temp_directory_path() / "feedrace-bench-XXXXXX";
  const Fd file(mkstemp(path.data()));
  const std::string tar = packed(count, static_cast<std::size_t>(state.range(1)));
  if (!file || !write_at(file.get(), path, 0, tar)) state.SkipWithError("cannot write the shard");
  for (auto _ : state) {
    const auto scan = scan_shard_file(path, {"auto", "label", nullptr});
    if (!scan || scan->sample_count() != count || scan->label[count - 1] != 7) {
      state.SkipWithError("wrong samples");
    }
  }
  std::filesystem::remove(path);
  const auto members =
      static_cast<double>(2 * count * static_cast<std::size_t>(state.iterations()));
  state.counters["members_per_minute"] =
      benchmark::Counter(60 * members, benchmark::Counter::kIsRate);
}

// 1 GB of members of up to 512 bytes; 1 GB of images of 20 KB and of 110 KB.
BENCHMARK(scan_samples)
    ->Args({500'000, 400})
    ->Args({48'000, 20'000})
    ->Args({9'000, 110'000})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace feedrace::formats
