// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/arrays.h"

#include <nanobind/ndarray.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "feedrace/python/interpreter_lock.h"

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

using Owner = std::shared_ptr<const void>;

void let_go(void* owner) noexcept { delete static_cast<Owner*>(owner); }

/// The last batch of a loader that is gone gives device memory back, which waits for the device.
void let_go_unlocked(void* owner) noexcept {
  const Unlocked unlocked;
  let_go(owner);
}

}  // namespace

nb::object array_of(const Tensor& tensor, std::shared_ptr<const void> owner) {
  auto held = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
  const bool is_on_device = tensor.device >= 0;
  const nb::capsule keeper(held.get(), is_on_device ? &let_go_unlocked : &let_go);
  held.release();  // NOLINT(bugprone-unused-return-value): the capsule has it.
  const std::vector<std::size_t> shape(tensor.shape.begin(), tensor.shape.end());
  const int device_kind = is_on_device ? nb::device::cuda::value : nb::device::cpu::value;
  return nb::cast(nb::ndarray<nb::array_api>(tensor.data, shape.size(), shape.data(), keeper,
                                             nullptr, dtype_of(tensor.dtype), device_kind,
                                             is_on_device ? tensor.device : 0));
}

}  // namespace feedrace::python
