// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order.h"

namespace feedrace {

const char* to_string(Shuffle shuffle) noexcept {
  switch (shuffle) {
    case Shuffle::kNone:
      return "none";
    case Shuffle::kWindow:
      return "window";
    case Shuffle::kGlobal:
      return "global";
  }
  return "unknown";
}

const char* to_string(LastBatch last_batch) noexcept {
  switch (last_batch) {
    case LastBatch::kDrop:
      return "drop";
    case LastBatch::kPad:
      return "pad";
    case LastBatch::kPartial:
      return "partial";
    case LastBatch::kFill:
      return "fill";
  }
  return "unknown";
}

}  // namespace feedrace
