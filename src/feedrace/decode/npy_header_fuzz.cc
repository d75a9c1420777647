// SPDX-License-Identifier: Apache-2.0
// Any bytes as a .npy header: read within their bounds, and numbers begin within them.

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "feedrace/decode/npy_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::uint8_t> exact(data, data + size);
  const auto header = feedrace::decode::read_npy_header(std::as_bytes(std::span(exact)));
  if (!header) {
    const std::string& message = header.error().message;
    if (message.empty() || message.find('\n') != std::string::npos) abort();
    return 0;
  }
  if (header->values_at_bytes > size) abort();
  if (header->values_at_bytes > feedrace::decode::kMaxNpyHeaderBytes) abort();
  for (const std::int64_t extent : header->shape) {
    if (extent < 0) abort();
  }
  return 0;
}
