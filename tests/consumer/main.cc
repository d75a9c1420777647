// SPDX-License-Identifier: Apache-2.0
// Reads one epoch of a folder of pictures: consumer FOLDER
#include <cstdint>
#include <cstdio>

#include "feedrace/loader.h"

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
    feedrace::Loader loader(options);
    std::printf("%s\n", loader.plan().to_text().c_str());

    while (const auto batch = loader.next()) {
      std::printf("batch %llu:", static_cast<unsigned long long>(batch->step));
      for (const std::int64_t extent : batch->images.shape) {
        std::printf(" %lld", static_cast<long long>(extent));
      }
      const auto* labels = static_cast<const std::int64_t*>(batch->labels.data);
      std::printf(" labels");
      for (std::size_t i = 0; i < batch->size(); ++i) {
        std::printf(" %lld", static_cast<long long>(labels[i]));
      }
      std::printf("\n");
    }
  } catch (const feedrace::Error& error) {
    std::fprintf(stderr, "consumer: %s\n", error.what());
    return 1;
  }
  return 0;
}
