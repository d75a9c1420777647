// SPDX-License-Identifier: Apache-2.0
// Reads one epoch of a folder of pictures, in two goes: consumer FOLDER
#include <cstdint>
#include <cstdio>
#include <string>

#include "feedrace/loader.h"

namespace {

void print(const feedrace::Batch& batch) {
  std::printf("batch %llu:", static_cast<unsigned long long>(batch.step));
  for (const std::int64_t extent : batch.images.shape) {
    std::printf(" %lld", static_cast<long long>(extent));
  }
  const auto* labels = static_cast<const std::int64_t*>(batch.labels.data);
  std::printf(" labels");
  for (std::size_t i = 0; i < batch.size(); ++i) {
    std::printf(" %lld", static_cast<long long>(labels[i]));
  }
  std::printf("\n");
}

/// Takes one batch and stops there; where, says the state.
std::string begin(const feedrace::LoaderOptions& options) {
  feedrace::Loader loader(options);
  std::printf("%s\n", loader.plan().to_text().c_str());
  print(*loader.next());
  return loader.state();
}

void go_on(const feedrace::LoaderOptions& options, const std::string& state) {
  feedrace::Loader loader(options);
  for (const std::string& note : loader.load_state(state)) std::printf("note: %s\n", note.c_str());
  while (const auto batch = loader.next()) print(*batch);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: consumer FOLDER\n");
    return 2;
  }
  try {
    feedrace::LoaderOptions options;
    options.sources = {argv[1]};
    options.batch_size = 8;
    options.last_batch = feedrace::LastBatch::kPartial;
    const std::string state = begin(options);
    options.thread_count = 1;
    go_on(options, state);
  } catch (const feedrace::Error& error) {
    std::fprintf(stderr, "consumer: %s\n", error.what());
    return 1;
  }
  return 0;
}
