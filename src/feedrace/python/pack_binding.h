// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace feedrace::python {

/// `pack` and `finish_pack`, of which the package makes functions for people.
void bind_pack(nanobind::module_& module);

}  // namespace feedrace::python
