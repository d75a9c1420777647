// SPDX-License-Identifier: Apache-2.0
// Which back end reads a large file with the least CPU time, out of the page cache and past it?
// Random reads of 128 KiB, 32 in flight. All bytes are compared with pread's before the clock runs.
//
//   FEEDRACE_BENCH_FILE=/data/train-000.tar feedrace_storage_bench
//
// Without the variable a temporary file of 256 MiB is made in the current folder.

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/random.h"
#include "feedrace/storage/backends.h"
#include "feedrace/storage/posix_file.h"

namespace feedrace::storage {
namespace {

constexpr std::size_t kReadBytes = std::size_t{128} << 10;
constexpr std::size_t kQueueDepth = 32;

/// The file to read: the user's, or one that is gone at the end.
class BenchFile {
 public:
  BenchFile() {
    if (const char* path = std::getenv("FEEDRACE_BENCH_FILE")) {
      path_ = path;
      return;
    }
    path_ = "feedrace-bench-XXXXXX";
    const FileDescriptor fd(mkstemp(path_.data()));
    is_own_ = static_cast<bool>(fd);
    SampleRandom random(0, 0, 0, 0);
    std::vector<std::uint32_t> block((std::size_t{4} << 20) / sizeof(std::uint32_t));
    for (int i = 0; i < 64; ++i) {
      for (std::uint32_t& word : block) word = random.next();
      const std::size_t bytes = block.size() * sizeof(std::uint32_t);
      if (write(fd.get(), block.data(), bytes) != static_cast<ssize_t>(bytes)) return;
    }
    fdatasync(fd.get());
  }
  ~BenchFile() {
    if (is_own_) unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_own_ = false;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Reads the blocks of a file in `order`, and hands each with its number to `use`.
template <typename Use>
bool read_blocks(Backend& backend, const File& file, const HostMemory& memory,
                 const std::vector<std::size_t>& order, Use use) {
  std::vector<std::size_t> free_buffers(kQueueDepth);
  std::iota(free_buffers.begin(), free_buffers.end(), std::size_t{0});
  std::vector<std::size_t> block_in(kQueueDepth);
  std::vector<ReadRequest> requests;
  std::vector<Completion> out(kQueueDepth);
  std::size_t sent = 0;
  for (std::size_t done = 0; done < order.size();) {
    requests.clear();
    for (; sent < order.size() && !free_buffers.empty(); ++sent) {
      const std::size_t buffer = free_buffers.back();
      free_buffers.pop_back();
      block_in[buffer] = order[sent];
      requests.push_back({&file, nullptr, order[sent] * kReadBytes,
                          memory.bytes().subspan(buffer * kReadBytes, kReadBytes), buffer});
    }
    if (backend.submit(requests) != requests.size()) return false;
    const std::size_t count = backend.wait(out, 1);
    for (std::size_t i = 0; i < count; ++i) {
      const auto buffer = static_cast<std::size_t>(out[i].user_data);
      if (!out[i].bytes_read || *out[i].bytes_read != kReadBytes) return false;
      if (!use(block_in[buffer], memory.data() + buffer * kReadBytes)) return false;
      free_buffers.push_back(buffer);
    }
    done += count;
  }
  return true;
}

void read_file(benchmark::State& state, const std::string& name, bool is_registered, bool is_cold,
               bool is_direct) {
  static const BenchFile bench_file;
  const HostMemory memory(kQueueDepth * kReadBytes);
  memory.touch();
  BackendOptions options;
  options.queue_depth = kQueueDepth;
  options.access = is_direct ? Access::kDirect : Access::kPageCache;
  auto made = create_backend(name == "uring" ? Engine::kUring : Engine::kThreads, options);
  if (!made) return state.SkipWithError(made.error().message.c_str());
  Backend& backend = **made;
  if (is_registered) {
    if (const auto done = backend.register_memory(memory.bytes()); !done) {
      return state.SkipWithError(done.error().message.c_str());
    }
  }
  auto opened = backend.open(bench_file.path());
  if (!opened) return state.SkipWithError(opened.error().message.c_str());
  const File& file = **opened;
  const int fd = static_cast<const PosixFile&>(file).fd();

  std::vector<std::size_t> order(static_cast<std::size_t>(file.size_bytes()) / kReadBytes);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  std::vector<std::byte> expected(kReadBytes);
  const bool is_right =
      read_blocks(backend, file, memory, order, [&](std::size_t block, std::byte* bytes) {
        const ssize_t n =
            pread(fd, expected.data(), kReadBytes, static_cast<off_t>(block * kReadBytes));
        return n == static_cast<ssize_t>(kReadBytes) &&
               std::memcmp(expected.data(), bytes, kReadBytes) == 0;
      });
  if (!is_right) return state.SkipWithError("the bytes differ from pread's");

  double cpu = 0;
  for (auto _ : state) {
    state.PauseTiming();
    if (is_cold) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const double before = cpu_seconds();
    state.ResumeTiming();
    const bool all = read_blocks(backend, file, memory, order,
                                 [](std::size_t, const std::byte*) { return true; });
    cpu += cpu_seconds() - before;
    if (!all) return state.SkipWithError("a read failed");
  }
  const auto reads = static_cast<double>(state.iterations()) * static_cast<double>(order.size());
  state.counters["reads/s"] = benchmark::Counter(reads, benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(reads * kReadBytes / 1e9, benchmark::Counter::kIsRate);
  state.counters["cpu_ms/GB"] = cpu * 1e3 / (reads * kReadBytes / 1e9);
}

void add(const std::string& title, const std::string& name, bool is_registered, bool is_cold,
         bool is_direct) {
  benchmark::RegisterBenchmark(
      title.c_str(),
      [=](benchmark::State& state) { read_file(state, name, is_registered, is_cold, is_direct); })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

const int kAdded = [] {
  for (const bool is_cold : {false, true}) {
    const std::string end = is_cold ? "/cold" : "/warm";
    add("buffered" + end, "buffered", false, is_cold, false);
    add("uring" + end, "uring", false, is_cold, false);
    add("uring+registered" + end, "uring", true, is_cold, false);
  }
  add("direct", "direct", false, false, true);
  add("uring/direct", "uring", false, false, true);
  add("uring+registered/direct", "uring", true, false, true);
  return 0;
}();

}  // namespace
}  // namespace feedrace::storage
