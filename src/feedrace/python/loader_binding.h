// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace feedrace::python {

/// Makes the classes `Loader` and `Batch` in `module`.
void bind_loader(nanobind::module_& module);

}  // namespace feedrace::python
