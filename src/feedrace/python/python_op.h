// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "feedrace/op.h"

namespace feedrace::python {

/// What a function raises to end the program, on its way to the consumer. No std::exception, so
/// that nobody takes it for a sample's failure.
struct UserExit {
  std::shared_ptr<nanobind::python_error> error;
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
  /// Takes the interpreter's lock.
  ~PythonOp() override;
  PythonOp(const PythonOp&) = delete;
  PythonOp& operator=(const PythonOp&) = delete;

  std::string_view name() const noexcept override { return name_; }
  ops::ImageSize plan(ops::ImageSize input) const override { return size_.value_or(input); }
  /// Throws std::runtime_error with Python's message; `UserExit` for SystemExit and the like.
  void run(const ops::ConstImageView& input, const ops::ImageView& output,
           SampleRandom& random) const override;

  const nanobind::object& function() const noexcept { return function_; }
  const std::optional<ops::ImageSize>& size() const noexcept { return size_; }
  bool is_random() const noexcept { return is_random_; }

 private:
  nanobind::object call(const ops::ConstImageView& input, SampleRandom& random) const;

  nanobind::object function_;
  const std::string name_;
  const std::optional<ops::ImageSize> size_;
  const bool is_random_;
};

}  // namespace feedrace::python
