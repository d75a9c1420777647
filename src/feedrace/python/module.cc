// SPDX-License-Identifier: Apache-2.0
// The native module of the Python package: the C++ library as it is, for python/feedrace to wrap.
// It holds no logic of its own.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "feedrace/pipeline.h"
#include "feedrace/python/loader_binding.h"
#include "feedrace/python/native_error.h"
#include "feedrace/python/steps.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

nb::dict described(const nb::list& steps) {
  const Pipeline pipeline = pipeline_of(steps);
  nb::dict out;
  out["text"] = pipeline.describe();
  out["notes"] = pipeline.unfused();
  const bool has_pictures = !pipeline.reads_only && !pipeline.raw;
  const auto size = has_pictures ? pipeline.output_size() : std::nullopt;
  out["size"] = size ? nb::object(nb::make_tuple(size->height_px, size->width_px)) : nb::none();
  const auto dtype = pipeline.raw ? pipeline.raw->dtype : std::optional(pipeline.dtype);
  out["dtype"] = dtype ? nb::object(nb::str(to_string(*dtype))) : nb::none();
  out["layout"] = to_string(pipeline.layout);
  out["crops_at_random"] = pipeline.crops_at_random();
  return out;
}

}  // namespace
}  // namespace feedrace::python

// Python finds our entry point, at the end; this renames nanobind's, which comes behind it.
#define PyInit__feedrace nanobind_entry  // NOLINT(bugprone-reserved-identifier)

NB_MODULE(_feedrace, module) {
  namespace python = feedrace::python;
  using feedrace::Pipeline;
  // What lives until the interpreter ends is no leak: loaders of a script are often globals.
  nb::set_leak_warnings(false);
  module.doc() = "The C++ library of Feedrace, for the package around it.";
  module.attr("version") = FEEDRACE_VERSION;
  python::bind_error(module);
  python::bind_loader(module);
  module.def(
      "recipe", [](const std::string& name) { return python::steps_of(Pipeline::recipe(name)); },
      nb::arg("name"), "The steps of a recipe.");
  module.def("recipe_names", &Pipeline::recipe_names);
  module.def("describe", &python::described, nb::arg("steps"),
             "Checks steps; gives text, notes (what does not fuse, and why), size, dtype, layout.");
}

#undef PyInit__feedrace

/// Threads of loaders, and nanobind itself, know the main interpreter only: what a second one makes
/// of the module would be mixed up with what the first one has.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): as Python has it.
extern "C" NB_EXPORT PyObject* PyInit__feedrace() {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError,
                    "feedrace._feedrace: it is imported in an interpreter that is not the main one "
                    "of the process; import it in the main one, or in another process");
    return nullptr;
  }
  return nanobind_entry();
}
