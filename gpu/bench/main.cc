// SPDX-License-Identifier: Apache-2.0
// feedrace_gpu_bench: measures on a GPU, for gpu/check. One line of JSON a figure or check.
//
//   feedrace_gpu_bench facts                                  what the libraries say
//   feedrace_gpu_bench pictures --pictures DIR --count 2000   make the data
//   feedrace_gpu_bench copies                                 to the device: pinned, pageable, link
//   feedrace_gpu_bench fused                                  the fused pass
//   feedrace_gpu_bench decode --pictures DIR                  nvJPEG: hardware, software, both
//   feedrace_gpu_bench loader --pictures DIR --seconds 5      the whole loader
//   feedrace_gpu_bench shards --pictures DIR --count 2000     make decoded shards for it
//
// --quick: little data and few runs; --batch-size N: pictures a batch; --backend NAME: of the
// loader. FEEDRACE_CUDA_PLUGIN and FEEDRACE_CUDA_LIBRARIES say where libraries are. Ends with 1
// when an output is wrong, with 3 when something can't be had; the reason is the last line on
// stderr.
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/text.h"

#include "gpu/bench/report.h"

namespace feedrace::gpu {
namespace {

bool all_good = true;

void print_line(const nlohmann::ordered_json& line) {
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);  // What comes before a hang or crash is kept.
}

}  // namespace

void print_figure(const std::string& name, const std::string& unit,
                  const std::vector<double>& values) {
  print_line({{"figure", name}, {"unit", unit}, {"values", values}});
}

void print_check(const std::string& name, bool is_good, const std::string& found) {
  all_good = all_good && is_good;
  print_line({{"check", name}, {"status", is_good ? "pass" : "fail"}, {"reason", found}});
}

void print_skip(const std::string& name, const std::string& reason) {
  print_line({{"check", name}, {"status", "skip"}, {"reason", reason}});
}

/// What the driver and the other libraries say of themselves and of the devices.
void print_facts() {
  const auto facts = open_plugin()->facts();
  if (!facts) throw Error(facts.error().code, facts.error().message);
  print_line(nlohmann::ordered_json::parse(*facts));
}

Error bad_argument(const std::string& found) {
  return Error(ErrorCode::kInvalidArgument, found + "; the top of gpu/bench/main.cc shows all");
}

/// The options behind the name of the part.
BenchOptions parse(const std::vector<std::string>& arguments) {
  BenchOptions options;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--quick") {
      options.is_quick = true;
      continue;
    }
    if (i + 1 == arguments.size()) throw bad_argument(name + " has no value");
    const std::string& value = arguments[++i];
    if (name == "--pictures") {
      options.pictures = value;
    } else if (name == "--seconds") {
      options.seconds = std::stod(value);
    } else if (name == "--count") {
      options.count = std::stoul(value);
    } else if (name == "--batch-size") {
      options.batch_size = std::stoul(value);
    } else if (name == "--backend") {
      options.backend = value;
    } else {
      throw bad_argument("there is no " + name);
    }
  }
  return options;
}

int run(const std::vector<std::string>& arguments) {
  const std::map<std::string, std::function<void(const BenchOptions&)>> parts = {
      {"facts", [](const BenchOptions&) { print_facts(); }},
      {"pictures", write_pictures},
      {"copies", bench_copies},
      {"fused", bench_fused_pass},
      {"decode", bench_decode},
      {"loader", bench_loader},
      {"shards", write_decoded_shards},
  };
  const auto part = parts.find(arguments.empty() ? "" : arguments.front());
  if (part == parts.end()) throw bad_argument("the first argument must be a part");
  part->second(parse(arguments));
  return all_good ? 0 : 1;
}

}  // namespace feedrace::gpu

int main(int argc, char** argv) {
  try {
    return feedrace::gpu::run({argv + 1, argv + argc});
  } catch (const feedrace::Error& error) {
    fmt::print(stderr, "feedrace_gpu_bench: {}\n", feedrace::printable(error.what()));
    return error.code() == feedrace::ErrorCode::kUnsupported ? 3 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "feedrace_gpu_bench: {}\n", feedrace::printable(error.what()));
    return 1;
  }
}
