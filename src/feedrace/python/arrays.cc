// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/arrays.h"

#include <nanobind/ndarray.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace feedrace::python {
namespace {

nb::dlpack::dtype dtype_of(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return nb::dtype<std::uint8_t>();
    case DType::kFloat16:
      return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    case DType::kFloat32:
      return nb::dtype<float>();
    case DType::kInt64:
      break;
  }
  return nb::dtype<std::int64_t>();
}

}  // namespace

nb::object array_of(const Tensor& tensor, std::shared_ptr<const void> owner) {
  auto held = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
  const nb::capsule keeper(held.get(), [](void* data) noexcept {
    delete static_cast<std::shared_ptr<const void>*>(data);
  });
  held.release();  // NOLINT(bugprone-unused-return-value): the capsule has it.
  const std::vector<std::size_t> shape(tensor.shape.begin(), tensor.shape.end());
  return nb::cast(nb::ndarray<nb::array_api>(tensor.data, shape.size(), shape.data(), keeper,
                                             nullptr, dtype_of(tensor.dtype),
                                             nb::device::cpu::value, 0));
}

}  // namespace feedrace::python
