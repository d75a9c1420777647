// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "feedrace/loader.h"
#include "feedrace/python/held.h"

namespace feedrace::python {

/// The options of a loader from keyword arguments, which have the names and values that
/// `Loader.__init__` documents. Throws Error kInvalidArgument: one that is not known, or of the
/// wrong type; the values themselves are the loader's to check. Functions that the loader will call
/// are added to `held`, but for those of steps.
LoaderOptions loader_options_of(const nanobind::kwargs& arguments, std::vector<Held>& held);

/// Lets Ctrl-C end a wait: Python's signal handlers run on its main thread only, between bytecodes.
/// Takes the interpreter's lock. Throws what the handler raised.
void check_signals();

/// The docstring of `Loader.__init__`.
extern const char* const kLoaderOptionsDoc;

}  // namespace feedrace::python
