// SPDX-License-Identifier: Apache-2.0
// Any EXIF block gives an orientation from 1 to 8 and is read within its bounds.

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "feedrace/decode/exif.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::uint8_t> exact(data, data + size);
  const std::uint8_t orientation =
      feedrace::decode::exif_orientation(std::as_bytes(std::span(exact)));
  if (orientation < 1 || orientation > 8) abort();
  return 0;
}
