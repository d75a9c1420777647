// SPDX-License-Identifier: Apache-2.0
#include "feedrace/verdict/limiting_stage.h"

namespace feedrace::verdict {

const char* limiting_stage(Limit limit) noexcept {
  switch (limit) {
    case Limit::kConsumer:
    case Limit::kBatchOverhead:
      return "consumer";
    case Limit::kDecode:
    case Limit::kSlowSamples:
    // Without a core of their own, it is the decode threads that come too late.
    case Limit::kOversubscribed:
    case Limit::kNeighbour:
      return "decode";
    case Limit::kGpuStage:
      return "device";
    case Limit::kColdStart:
    case Limit::kMemoryCopies:
    case Limit::kStorage:
    case Limit::kSmallFiles:
    case Limit::kSharedDevice:
    case Limit::kGpuTopology:
      return "io";
    case Limit::kNothingYet:
    case Limit::kTooShort:
    case Limit::kSteal:
    case Limit::kQuota:
    case Limit::kMemoryPressure:
    case Limit::kSwap:
    case Limit::kBadSamples:
      return nullptr;
  }
  return nullptr;
}

}  // namespace feedrace::verdict
