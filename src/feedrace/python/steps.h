// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include "feedrace/pipeline.h"

namespace feedrace::python {

/// A pipeline from the package's list of steps, dicts with "op" and its arguments, and back.
/// Throws Error kInvalidArgument: an op or key that is not known, a value of the wrong type, steps
/// in an order that can't be; the values themselves are `Pipeline::check`'s.
Pipeline pipeline_of(const nanobind::list& steps);
nanobind::list steps_of(const Pipeline& pipeline);

}  // namespace feedrace::python
