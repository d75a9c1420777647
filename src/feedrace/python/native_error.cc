// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/native_error.h"

#include <sys/resource.h>

#include <exception>
#include <new>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/python/python_op.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

void set_error(const Error& error, const nb::handle error_class, const nb::handle cause = {}) {
  // Paths in messages may hold bytes that are not UTF-8.
  PyObject* text = PyUnicode_DecodeUTF8(
      error.what(), static_cast<Py_ssize_t>(std::char_traits<char>::length(error.what())),
      "backslashreplace");
  if (text == nullptr) return;
  const nb::object made = error_class(nb::steal(text));
  made.attr("code") = to_string(error.code());
  if (cause.is_valid()) made.attr("__cause__") = cause;
  PyErr_SetObject(error_class.ptr(), made.ptr());
}

Error memory_error(const std::string& wanted) {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const std::string found =
      is_limited
          ? fmt::format("too little is left of the address space, which ulimit -v bounds to {}",
                        human_bytes(limit.rlim_cur))
          : "the system has too little left";
  return {ErrorCode::kInvalidArgument,
          fmt::format("memory: {}{}; lower batch_size, prefetch_factor or num_threads{}", found,
                      wanted.empty() ? "" : ", and " + wanted,
                      is_limited ? ", or raise that limit" : "")};
}

void translate(const std::exception_ptr& thrown, void* type) {
  const nb::handle error_class(static_cast<PyObject*>(type));
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    set_error(error, error_class);
  } catch (const CausedError& caused) {
    set_error(caused.error, error_class, *caused.exception);
  } catch (const std::bad_alloc&) {
    set_error(memory_error(""), error_class);
  } catch (const UserExit& exit) {
    nb::python_error copy(*exit.error);
    copy.restore();
  }
}

}  // namespace

void bind_error(nb::module_& module) {
  constexpr const char* kDoc =
      "What Feedrace raises: one line, \"where: what was found; what to do\".\n\n"
      "`code` says what the caller can do: \"invalid_argument\" (fix the call), \"not_found\" (fix "
      "the path),\n\"io\" (retry, or look at the device), \"corrupt_data\" (repair the data set, "
      "or "
      "set on_error),\n\"unsupported\" (this machine or build lacks something), \"cancelled\".";
  PyObject* type = PyErr_NewExceptionWithDoc("feedrace.Error", kDoc, PyExc_RuntimeError, nullptr);
  if (type == nullptr) throw nb::python_error();
  module.attr("Error") = nb::steal(type);
  nb::handle(type).attr("code") = nb::str("invalid_argument");
  nb::register_exception_translator(translate, type);
}

void refuse_for_memory(const std::string& wanted) { throw memory_error(wanted); }

void refuse(const std::string& message) { throw Error(ErrorCode::kInvalidArgument, message); }

}  // namespace feedrace::python
