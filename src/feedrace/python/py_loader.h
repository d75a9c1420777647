// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "feedrace/loader.h"
#include "feedrace/python/held.h"
#include "feedrace/python/interpreter_lock.h"
#include "feedrace/python/native_error.h"
#include "feedrace/python/python_op.h"

namespace feedrace::python {

/// A loader, and how Python may use it. What waits for the loader's threads must not hold the
/// interpreter's lock, since those threads may want it for a Python function. A lock of its own
/// keeps two threads of Python from being two consumers at a time.
///
/// A function that the loader calls may refer to it; slots() let the garbage collector see that.
class PyLoader {
 public:
  explicit PyLoader(const nanobind::kwargs& arguments);
  ~PyLoader();
  PyLoader(const PyLoader&) = delete;
  PyLoader& operator=(const PyLoader&) = delete;

  /// For what any thread may call at any time.
  const Loader* native() const noexcept { return loader_.get(); }
  Loader* operator->() const noexcept { return loader_.get(); }
  std::weak_ptr<const Loader> weak() const noexcept { return loader_; }

  /// Calls `body` as the consumer. Signal handlers run while `next()` waits, on its thread: they
  /// may look, hence the recursive lock. Throws Error inside a function of the loader's own.
  template <typename Body>
  auto look(const Body& body) const {
    const Visit visit(*this);
    const Unlocked unlocked;
    const std::lock_guard lock(consumer_);
    try {
      return body(*loader_);
    } catch (const Error& error) {
      throw_with_cause(error);
    } catch (const std::bad_alloc&) {
      refuse_for_plan();
    }
  }
  /// The same for what moves the loader; inside `next()`, Error.
  template <typename Body>
  auto move(const Body& body) {
    return look([&](Loader& loader) {
      if (is_moving_) {
        refuse(
            "a signal handler moves the loader while next() waits; set a flag in the handler, and "
            "act on it between batches");
      }
      const Moving moving(is_moving_);
      return body(loader);
    });
  }

  /// On: a `next()` that waits, on whatever thread, throws, and so do those that come.
  void interrupt(bool is_on) noexcept { is_interrupted_ = is_on; }

  /// For good: ends all threads, and lets no thread of Python in. At the end of the interpreter a
  /// thread that asks for its lock is ended where it stands, which in C++ ends the process. Inside
  /// a function of the loader's own it does not wait for the threads.
  void leave();

  /// How the garbage collector traverses, finalizes and clears.
  static const PyType_Slot* slots() noexcept;

 private:
  /// A thread of Python that is inside: from before it lets the interpreter's lock go until it has
  /// it back.
  struct Visit {
    explicit Visit(const PyLoader& self);
    ~Visit() { --count; }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    std::atomic<int>& count;
  };
  struct Moving {
    explicit Moving(bool& is_moving) : flag(is_moving) { flag = true; }
    ~Moving() { flag = false; }
    Moving(const Moving&) = delete;
    Moving& operator=(const Moving&) = delete;
    bool& flag;
  };

  static int traverse(PyObject* self, visitproc visit, void* arg);
  static void finalize(PyObject* self);
  static int clear(PyObject* self);
  static int leave_later(void* self);

  /// Whether this thread is one of the loader's own, inside a function of the user's.
  bool runs_here() const noexcept;
  bool is_forked() const noexcept;
  void refuse_if_interrupted() const;
  [[noreturn]] void refuse_for_plan() const;
  /// Inside the handler of `error`.
  [[noreturn]] void throw_with_cause(const Error& error) const;

  std::vector<Held> held_;  ///< All that is Python's in the loader.
  std::vector<std::shared_ptr<const PythonOp>> ops_;
  std::shared_ptr<Loader> loader_;
  const pid_t owner_;
  mutable std::recursive_mutex consumer_;
  mutable std::atomic<int> visits_ = 0;
  std::atomic<bool> is_interrupted_ = false;
  std::atomic<bool> has_left_ = false;
  bool is_moving_ = false;  // Guarded by consumer_.
};

}  // namespace feedrace::python
