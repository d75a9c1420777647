// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "feedrace/tensor.h"

namespace feedrace::python {

/// A tensor of a batch in a GPU's memory as an object with `__dlpack__` and
/// `__cuda_array_interface__`, without a copy. It keeps the batch alive, as does every array made
/// from it; until then its memory does not return to the loader.
nanobind::object device_array_of(const Tensor& tensor, std::shared_ptr<Batch> batch);

/// Lets a stream of CUDA, by its handle, go on behind the copies of a batch on a GPU. Any thread
/// may call it, for batches that threads share as well.
void hand_over(const Batch& batch, std::uint64_t stream);

/// Makes the class `DeviceArray` in `module`.
void bind_device_array(nanobind::module_& module);

}  // namespace feedrace::python
