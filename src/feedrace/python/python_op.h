// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "feedrace/error.h"
#include "feedrace/op.h"
#include "feedrace/python/held.h"

namespace feedrace::python {

/// What a function raises to end the program, on its way to the consumer. No std::exception, so
/// that nobody takes it for a sample's failure.
struct UserExit {
  std::shared_ptr<nanobind::python_error> error;
};

/// An error of the loader's that began as an exception of a function of the user's.
struct CausedError {
  Error error;
  Held exception;
};

/// What a function raised, by its text, until the loader throws that. From any thread.
class RaisedExceptions {
 public:
  /// Of one text the first is kept.
  void keep(const std::string& text, Held exception) const;
  /// The one whose text is a part of the loader's message; null: none.
  Held find(std::string_view message) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::string, Held> by_text_;
};

/// A Python function of one picture, as a step of a pipeline: uint8, [H, W, 3], in; the same of
/// the planned size out. Runs on decode threads, one at a time (the interpreter's lock). What it
/// gets is a copy, which it may keep and write to.
class PythonOp : public ops::Op {
 public:
  /// `size`: of what the function returns; nothing: as what it gets. `is_random`: it also gets an
  /// int of 128 bits, a function of (seed, epoch, sample), to seed a generator with.
  PythonOp(nanobind::object function, std::string name, std::optional<ops::ImageSize> size,
           bool is_random);

  std::string_view name() const noexcept override { return name_; }
  ops::ImageSize plan(ops::ImageSize input) const override { return size_.value_or(input); }
  /// Throws std::runtime_error with Python's message; `UserExit` for SystemExit and the like.
  void run(const ops::ConstImageView& input, const ops::ImageView& output,
           SampleRandom& random) const override;

  /// The op whose function runs on this thread; null: none.
  static const PythonOp* running() noexcept;

  /// From here on `raised()` has what the function raises. Where its failures end nothing, there
  /// may be any number of them, so they are not kept by themselves.
  void keep_raised() const noexcept { keeps_raised_ = true; }
  const RaisedExceptions& raised() const noexcept { return raised_; }

  const Held& function() const noexcept { return function_; }
  const std::optional<ops::ImageSize>& size() const noexcept { return size_; }
  bool is_random() const noexcept { return is_random_; }

 private:
  nanobind::object call(const ops::ConstImageView& input, SampleRandom& random) const;

  const Held function_;
  const std::string name_;
  const std::optional<ops::ImageSize> size_;
  const bool is_random_;
  mutable std::atomic<bool> keeps_raised_ = false;
  RaisedExceptions raised_;
};

}  // namespace feedrace::python
