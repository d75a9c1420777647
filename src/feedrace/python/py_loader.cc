// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/py_loader.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/python/loader_options.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

std::vector<std::shared_ptr<const PythonOp>> python_ops_of(const Pipeline& pipeline) {
  std::vector<std::shared_ptr<const PythonOp>> ops;
  for (const Step& step : pipeline.steps) {
    const auto* own = std::get_if<std::shared_ptr<const ops::Op>>(&step);
    if (own == nullptr) continue;
    if (auto op = std::dynamic_pointer_cast<const PythonOp>(*own)) ops.push_back(std::move(op));
  }
  return ops;
}

/// A loader on the main thread's way to drop it.
int drop(void* loader) {
  const Unlocked unlocked;
  delete static_cast<std::shared_ptr<Loader>*>(loader);
  return 0;
}

}  // namespace

PyLoader::PyLoader(const nb::kwargs& arguments) : owner_(getpid()) {
  LoaderOptions options = loader_options_of(arguments, held_);
  ops_ = python_ops_of(options.pipeline);
  for (const auto& op : ops_) {
    held_.push_back(op->function());
    if (options.on_error == OnError::kRaise) op->keep_raised();
  }
  options.while_waiting = [this, check_signals = std::move(options.while_waiting)] {
    refuse_if_interrupted();
    check_signals();
  };
  const Unlocked unlocked;
  loader_ = std::make_shared<Loader>(std::move(options));
}

PyLoader::~PyLoader() {
  if (!is_forked() && runs_here()) {
    // A function dropped the last reference, on a thread that the loader would wait for.
    loader_->cancel();
    auto last = std::make_unique<std::shared_ptr<Loader>>(std::move(loader_));
    // Where there is no room for another call, what is left of the loader stays.
    std::ignore = Py_AddPendingCall(&drop, last.release());
    return;
  }
  if (!is_forked() && !has_left_ && is_interpreter_gone()) {
    // Its threads may wait for the lock, for ever: nobody may wait for them. Nothing is left over
    // but what the process is about to give back.
    loader_->cancel();
    std::ignore = std::make_unique<std::shared_ptr<Loader>>(std::move(loader_)).release();
    return;
  }
  const Unlocked unlocked;
  loader_.reset();
}

PyLoader::Visit::Visit(const PyLoader& self) : count(self.visits_) {
  if (self.has_left_) {
    throw Error(ErrorCode::kCancelled,
                "the loader has ended, with its last user or with the program; make another one");
  }
  if (self.runs_here()) {
    refuse(
        "a function of the pipeline uses the loader that calls it; use it in the loop, on the "
        "thread that runs that");
  }
  ++count;
}

void PyLoader::leave() {
  interrupt(true);
  has_left_ = true;
  if (runs_here()) {
    loader_->cancel();
    return;
  }
  while (visits_ > 0) {
    const Unlocked unlocked;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Unlocked unlocked;
  const std::lock_guard lock(consumer_);
  loader_->pause();
}

int PyLoader::traverse(PyObject* self, visitproc visit,
                       void* arg) {  // Py_VISIT asks for the names.
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (const Held& each : nb::inst_ptr<PyLoader>(self)->held_) Py_VISIT(each->ptr());
  return 0;
}

/// Comes before anything of the garbage is cleared: then no thread may call a function any more.
void PyLoader::finalize(PyObject* self) {
  if (!nb::inst_ready(self)) return;
  auto* const loader = nb::inst_ptr<PyLoader>(self);
  if (loader->is_forked() || is_interpreter_gone()) return;
  const nb::error_scope kept;
  try {
    loader->leave();
  } catch (const std::exception&) {
    loader->loader_->cancel();  // A stage that failed is nobody's to hear of.
  }
  if (!loader->runs_here()) return;
  // The collector happens to run on a thread of this loader. With one more reference the garbage
  // stays, for the collection after the main thread has waited for the threads.
  Py_INCREF(self);
  std::ignore = Py_AddPendingCall(&PyLoader::leave_later, self);
}

int PyLoader::leave_later(void* self) {
  const nb::object held = nb::steal(static_cast<PyObject*>(self));
  finalize(held.ptr());
  return 0;
}

int PyLoader::clear(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  auto* const loader = nb::inst_ptr<PyLoader>(self);
  if (loader->runs_here() || is_interpreter_gone()) return 0;
  if (!loader->is_forked()) finalize(self);
  for (const Held& each : loader->held_) each->reset();
  return 0;
}

bool PyLoader::runs_here() const noexcept {
  const PythonOp* const running = PythonOp::running();
  return running != nullptr &&
         std::any_of(ops_.begin(), ops_.end(), [&](const auto& op) { return op.get() == running; });
}

bool PyLoader::is_forked() const noexcept { return getpid() != owner_; }

void PyLoader::refuse_if_interrupted() const {
  if (!is_interrupted_) return;
  throw Error(ErrorCode::kCancelled,
              "the loader was stopped by another thread; end the loop that runs on this one");
}

void PyLoader::throw_with_cause(const Error& error) const {
  for (const auto& op : ops_) {
    if (Held exception = op->raised().find(error.what())) {
      throw CausedError{error, std::move(exception)};
    }
  }
  throw;
}

void PyLoader::refuse_for_plan() const {
  const Plan& plan = loader_->plan();
  refuse_for_memory(
      fmt::format("the plan has {} for batch slots, {} for read buffers and {} for {} "
                  "decode threads",
                  human_bytes(plan.batch_slot_bytes), human_bytes(plan.read_buffer_bytes),
                  human_bytes(plan.decode_scratch_bytes), plan.decode_threads));
}

const PyType_Slot* PyLoader::slots() noexcept {
  static const PyType_Slot kSlots[] = {
      {Py_tp_traverse, reinterpret_cast<void*>(&PyLoader::traverse)},
      {Py_tp_finalize, reinterpret_cast<void*>(&PyLoader::finalize)},
      {Py_tp_clear, reinterpret_cast<void*>(&PyLoader::clear)},
      {0, nullptr},
  };
  return kSlots;
}

}  // namespace feedrace::python
