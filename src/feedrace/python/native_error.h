// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace feedrace::python {

/// Makes the class `Error` in `module` and turns every feedrace::Error that leaves a binding into
/// it: a RuntimeError of one line with the code's name as `code`.
void bind_error(nanobind::module_& module);

/// Throws Error kInvalidArgument.
[[noreturn]] void refuse(const std::string& message);

}  // namespace feedrace::python
