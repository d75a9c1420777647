// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "feedrace/python/interpreter_lock.h"

namespace feedrace::python {

/// A Python object that threads without the interpreter's lock may copy and let go of. It counts as
/// one reference, whatever the number of copies: the garbage collector must be shown it once.
using Held = std::shared_ptr<nanobind::object>;

inline Held hold(nanobind::object value) {
  return {new nanobind::object(std::move(value)), [](nanobind::object* held) {
            const Locked lock;
            delete held;
          }};
}

}  // namespace feedrace::python
