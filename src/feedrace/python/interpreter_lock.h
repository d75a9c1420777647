// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

namespace feedrace::python {

/// Gives what `body` gives, which waits for the interpreter's lock. Python up to 3.13 ends a thread
/// that asks for it when the interpreter is gone by unwinding its stack, which C++ answers with the
/// end of the process. Such a thread stays here instead, as later versions have it, until the
/// process is gone.
template <typename Body>
auto or_never(const Body& body) {
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    while (true) pause();
  }
}

/// Holds the interpreter's lock, on any thread.
class Locked {
 public:
  Locked() : state_(or_never([] { return PyGILState_Ensure(); })) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Lets others have the interpreter's lock.
class Unlocked {
 public:
  Unlocked() : thread_(PyEval_SaveThread()) {}
  ~Unlocked() {
    or_never([this] { PyEval_RestoreThread(thread_); });
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* thread_;
};

/// Whether threads that ask for the lock get it no more. Call with it.
inline bool is_interpreter_gone() {
  const nanobind::handle asked = PySys_GetObject("is_finalizing");  // Borrowed.
  if (!asked.is_valid() || asked.is_none()) return true;            // Taken down, even.
  return nanobind::cast<bool>(asked());
}

}  // namespace feedrace::python
