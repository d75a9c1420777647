// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "feedrace/tensor.h"

namespace feedrace::python {

/// A tensor as an object with `__dlpack__`, without a copy: C-contiguous, writable. It keeps
/// `owner` alive until the last array made from it is gone. One on a GPU knows nothing of streams:
/// see device_array.h.
nanobind::object array_of(const Tensor& tensor, std::shared_ptr<const void> owner);

}  // namespace feedrace::python
