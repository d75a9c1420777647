// SPDX-License-Identifier: Apache-2.0
// The native module of the Python package: the C++ library as it is, for python/feedrace to wrap.
// It holds no logic of its own.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "feedrace/cuda/plugin_loader.h"
#include "feedrace/pipeline.h"
#include "feedrace/python/device_array.h"
#include "feedrace/python/interpreter_lock.h"
#include "feedrace/python/loader_binding.h"
#include "feedrace/python/native_error.h"
#include "feedrace/python/pack_binding.h"
#include "feedrace/python/steps.h"
#include "feedrace/python/verify_binding.h"

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

/// JSON: what `info` of the plug-in's table says, and the plug-in itself as "plugin".
std::string gpu_info(std::vector<std::string> plugin_places, std::vector<std::string> libraries) {
  const Unlocked unlocked;
  const auto plugin = cuda::Plugin::load({std::move(plugin_places), std::move(libraries)});
  if (!plugin) raise(plugin.error());
  const auto text = (*plugin)->facts();
  if (!text) raise(text.error());
  auto facts = nlohmann::ordered_json::parse(*text);
  const feedrace_cuda_plugin& table = (*plugin)->table();
  facts["plugin"] = {{"version", table.version},
                     {"path", (*plugin)->path()},
                     {"built_for_cuda", table.built_for_cuda},
                     {"architectures", table.architectures}};
  return facts.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
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
  python::bind_device_array(module);
  python::bind_loader(module);
  python::bind_pack(module);
  python::bind_verify(module);
  module.def(
      "recipe", [](const std::string& name) { return python::steps_of(Pipeline::recipe(name)); },
      nb::arg("name"), "The steps of a recipe.");
  module.def("recipe_names", &Pipeline::recipe_names);
  module.def("gpu_info", &python::gpu_info, nb::arg("plugin"), nb::arg("libraries"),
             "What of a GPU this machine has, as JSON; plugin and libraries: where they are looked "
             "for.");
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
