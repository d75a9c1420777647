// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "feedrace/loader.h"

namespace feedrace::python {

/// A batch; arrays of it hold it, and by it the memory.
struct PyBatch {
  std::shared_ptr<Batch> batch;
  std::weak_ptr<const Loader> loader;  ///< For keys; a batch may outlive it.
};

/// Makes the class `Batch` in `module`.
void bind_batch(nanobind::module_& module);

}  // namespace feedrace::python
