// SPDX-License-Identifier: Apache-2.0
#include "feedrace/error.h"

namespace feedrace {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kCorruptData:
      return "corrupt_data";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kCancelled:
      return "cancelled";
  }
  return "io";
}

void raise(const Failure& failure) { throw Error(failure.code, failure.message); }

}  // namespace feedrace
