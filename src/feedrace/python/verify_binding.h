// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace feedrace::python {

/// Makes the function `verify` in `module`.
void bind_verify(nanobind::module_& module);

}  // namespace feedrace::python
