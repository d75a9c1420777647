// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/verify_binding.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "feedrace/python/interpreter_lock.h"
#include "feedrace/verify.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

/// Paths may hold bytes that are not UTF-8: they come as bytes.
std::string text_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

std::vector<std::string> texts_of(const nb::list& list) {
  std::vector<std::string> texts;
  for (const nb::handle item : list) texts.push_back(text_of(nb::cast<nb::bytes>(item)));
  return texts;
}

/// Ctrl-C, and a function of the user's. What it raises ends the work.
void tell(const nb::object& progress, std::uint64_t sample_count, double share) {
  const Locked locked;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  if (!progress.is_none()) progress(sample_count, share);
}

std::pair<std::string, std::string> verify(const nb::list& sources, bool decode, bool allow_flagged,
                                           const nb::list& require, const nb::bytes& bad_file,
                                           std::size_t threads, std::uint64_t max_pixels,
                                           std::optional<std::vector<std::string>> image_fields,
                                           std::string label_field, std::string label_json_key,
                                           const nb::bytes& label_file,
                                           const nb::object& progress) {
  const std::vector<std::string> paths = texts_of(sources);
  pack::VerifyOptions options;
  options.decodes = decode;
  options.refuses_flagged = !allow_flagged;
  options.required_fields = texts_of(require);
  options.bad_file = text_of(bad_file);
  options.thread_count = threads;
  options.max_pixels = max_pixels;
  if (image_fields) options.format.image_fields = *std::move(image_fields);
  options.format.label_field = std::move(label_field);
  options.format.label_json_key = std::move(label_json_key);
  options.format.label_file = text_of(label_file);
  options.format.store_index = formats::StoreIndex::kNever;
  options.progress = [&progress](std::uint64_t sample_count, double share) {
    tell(progress, sample_count, share);
  };
  const Unlocked unlocked;
  const pack::VerifyReport report = pack::verify(paths, options);
  return {report.to_json(), report.to_text()};
}

}  // namespace

void bind_verify(nb::module_& module) {
  module.def(
      "verify", &verify, nb::arg("sources"), nb::arg("decode"), nb::arg("allow_flagged"),
      nb::arg("require"), nb::arg("bad_file"), nb::arg("threads"), nb::arg("max_pixels"),
      nb::arg("image_fields").none(), nb::arg("label_field"), nb::arg("label_json_key"),
      nb::arg("label_file"), nb::arg("progress").none(),
      "What is wrong with a data set, as JSON, and as lines for a person. Paths and names come as "
      "bytes.");
}

}  // namespace feedrace::python
