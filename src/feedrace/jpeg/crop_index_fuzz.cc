// SPDX-License-Identifier: Apache-2.0
// Any crop index of any file is refused or gives places inside of the file, from which the scan can
// be walked within its bounds. Its check is put right, so that what stands behind it counts. Input:
// two bytes, the length of the index; the index; the file.

#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <xxhash.h>

#include "feedrace/jpeg/crop_index.h"

namespace {

using feedrace::jpeg::CropIndex;
using feedrace::jpeg::Frame;

constexpr std::size_t kHeadBytes = 9;

void put_check(std::vector<std::uint8_t>& index, const std::vector<std::uint8_t>& file) {
  if (index.size() < kHeadBytes) return;
  const XXH64_hash_t of_file = XXH3_64bits(file.data(), file.size());
  const XXH64_hash_t check =
      XXH3_64bits_withSeed(index.data() + kHeadBytes, index.size() - kHeadBytes, of_file);
  for (unsigned i = 0; i < 8; ++i) index[1 + i] = static_cast<std::uint8_t>(check >> (8 * i));
}

void check(std::span<const std::byte> index, std::span<const std::byte> file) {
  Frame frame;
  if (feedrace::jpeg::read_frame(file, frame) != nullptr) return;
  CropIndex places;
  if (places.read(index, file, frame) != nullptr) return;
  feedrace::jpeg::TableCache tables;
  feedrace::jpeg::Scan scan(*feedrace::jpeg::entropy_kernels().back());
  if (!scan.start(file, frame, tables)) return;
  for (const feedrace::jpeg::ScanPlace& place : places.places()) {
    if (place.at > file.size()) abort();
    scan.start_at(place);
    static_cast<void>(scan.walk(1));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t index_bytes = std::min(data[0] | std::size_t{data[1]} << 8, size - 2);
  std::vector<std::uint8_t> index(data + 2, data + 2 + index_bytes);
  const std::vector<std::uint8_t> file(data + 2 + index_bytes, data + size);
  put_check(index, file);
  check(std::as_bytes(std::span(index)), std::as_bytes(std::span(file)));
  // An index that passes its check: what our own walk makes of the file.
  if (const auto made = feedrace::jpeg::make_crop_index(std::as_bytes(std::span(file)))) {
    check(*made, std::as_bytes(std::span(file)));
  }
  return 0;
}
