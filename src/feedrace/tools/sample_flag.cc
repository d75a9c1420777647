// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/sample_flag.h"

namespace feedrace::tools {

const char* name_of(SampleFlag flag) noexcept {
  switch (flag) {
    case SampleFlag::kReal:
      return "real";
    case SampleFlag::kPadded:
      return "padded";
    case SampleFlag::kSubstituted:
      return "substituted";
    case SampleFlag::kBlank:
      return "blank";
  }
  return "";
}

}  // namespace feedrace::tools
