// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tensor.h"

namespace feedrace {

std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kUint8:
      return 1;
    case DType::kFloat16:
      return 2;
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
      return 8;
  }
  return 0;
}

const char* to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::kUint8:
      return "uint8";
    case DType::kFloat16:
      return "float16";
    case DType::kFloat32:
      return "float32";
    case DType::kInt64:
      return "int64";
  }
  return "";
}

const char* to_string(Layout layout) noexcept { return layout == Layout::kChw ? "CHW" : "HWC"; }

std::size_t Tensor::size_bytes() const noexcept {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

}  // namespace feedrace
