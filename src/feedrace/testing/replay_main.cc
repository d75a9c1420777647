// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over files and folders of inputs without libFuzzer, so that targets and found
// inputs are part of every normal test run.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "feedrace/testing/temp_dir.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::size_t replay(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    const std::string bytes = feedrace::testing::read_file(path);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    return 1;
  }
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) count += replay(entry.path());
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) count += replay(argv[i]);
  std::printf("%zu inputs replayed\n", count);
  return count > 0 ? 0 : 1;  // An empty corpus is a mistake in the call, not a pass.
}
