// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace feedrace::python {

/// Makes the class `Error` in `module` and turns every feedrace::Error that leaves a binding into
/// it: a RuntimeError of one line with the code's name as `code`. Memory that the system refuses
/// becomes one too.
void bind_error(nanobind::module_& module);

/// Throws Error kInvalidArgument, where the system gives no more memory. `wanted`: how much for
/// what, as far as that is known; may be empty.
[[noreturn]] void refuse_for_memory(const std::string& wanted);

/// Throws Error kInvalidArgument.
[[noreturn]] void refuse(const std::string& message);

}  // namespace feedrace::python
