// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

namespace feedrace::python {

/// Text that may hold bytes that are not UTF-8, such as paths and keys, as os.fsdecode has it.
inline nanobind::object decoded(const std::string& text) {
  PyObject* made =
      PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  if (made == nullptr) throw nanobind::python_error();
  return nanobind::steal(made);
}

inline nanobind::list decoded(const std::vector<std::string>& texts) {
  nanobind::list list;
  for (const std::string& text : texts) list.append(decoded(text));
  return list;
}

}  // namespace feedrace::python
