// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/python_op.h"

#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/core/text.h"
#include "feedrace/python/interpreter_lock.h"
#include "feedrace/random.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

using Picture = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Returned = nb::ndarray<const std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

/// The picture in memory of its own, as an array of numpy.
nb::object copy_of(const ops::ConstImageView& image) {
  const std::size_t row_bytes = std::size_t{3} * image.width_px;
  auto pixels = std::make_unique<std::uint8_t[]>(row_bytes * image.height_px);
  for (std::uint32_t y = 0; y < image.height_px; ++y) {
    std::memcpy(pixels.get() + y * row_bytes, image.rgb + y * image.row_bytes, row_bytes);
  }
  const nb::capsule owner(pixels.get(),
                          [](void* data) noexcept { delete[] static_cast<std::uint8_t*>(data); });
  return nb::cast(Picture(pixels.release(), {image.height_px, image.width_px, 3}, owner));
}

/// str() of anything, on one line, cut where it is long; what str() itself throws is dropped.
std::string text_of(nb::handle value) {
  constexpr std::size_t kShownBytes = 300;
  const nb::object text = nb::steal(PyObject_Str(value.ptr()));
  const nb::object bytes =
      text.is_valid()
          ? nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"))
          : nb::object();
  if (!bytes.is_valid()) {
    PyErr_Clear();
    return "(no text)";
  }
  const std::string whole = nb::borrow<nb::bytes>(bytes).c_str();
  std::string line = printable(whole.substr(0, kShownBytes));
  return whole.size() > kShownBytes ? line + "..." : line;
}

std::string what_is(nb::handle value) {
  std::string text = text_of(value.type().attr("__name__"));
  if (nb::hasattr(value, "dtype") && nb::hasattr(value, "shape")) {
    text += fmt::format(" of {} {}", text_of(value.attr("dtype")), text_of(value.attr("shape")));
  }
  return text;
}

/// What was raised, with where; without what the frames had in their variables, such as pictures.
Held without_locals(const nb::python_error& error) {
  if (error.traceback().is_valid()) {
    nb::module_::import_("traceback").attr("clear_frames")(error.traceback());
    PyException_SetTraceback(error.value().ptr(), error.traceback().ptr());
  }
  return hold(nb::borrow(error.value()));
}

thread_local const PythonOp* running_op = nullptr;

/// A function may run a loop over another loader, but that runs its own ops on other threads.
struct Running {
  explicit Running(const PythonOp* op) { running_op = op; }
  ~Running() { running_op = nullptr; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

}  // namespace

PythonOp::PythonOp(nb::object function, std::string name, std::optional<ops::ImageSize> size,
                   bool is_random)
    : function_(hold(std::move(function))),
      name_(std::move(name)),
      size_(size),
      is_random_(is_random) {}

void RaisedExceptions::keep(const std::string& text, Held exception) const {
  constexpr std::size_t kMost = 1024;  // As many as batches that are being made may have, or so.
  const std::lock_guard lock(mutex_);
  if (by_text_.size() < kMost) by_text_.emplace(text, std::move(exception));
}

Held RaisedExceptions::find(std::string_view message) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [text, exception] : by_text_) {
    if (message.find(text) != std::string_view::npos) return exception;
  }
  return nullptr;
}

const PythonOp* PythonOp::running() noexcept { return running_op; }

nb::object PythonOp::call(const ops::ConstImageView& input, SampleRandom& random) const {
  const nb::object picture = copy_of(input);
  nb::object bits;
  if (is_random_) {
    bits = nb::int_(0);
    for (int i = 0; i < 4; ++i) bits = (bits << nb::int_(32)) | nb::int_(random.next());
  }
  // As C has it: nothing of C++ may lie between this and where the thread could be ended.
  PyObject* const result = or_never([&] {
    return PyObject_CallFunctionObjArgs(function_->ptr(), picture.ptr(), bits.ptr(), nullptr);
  });
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

void PythonOp::run(const ops::ConstImageView& input, const ops::ImageView& output,
                   SampleRandom& random) const {
  const Locked lock;
  const Running running(this);
  std::string failed;
  try {
    const nb::object result = call(input, random);
    Returned pixels;
    // Nothing is converted: floats would wrap, or become black, in silence.
    constexpr bool kConvert = false;
    const bool fits = nb::try_cast(result, pixels, kConvert) &&
                      pixels.shape(0) == output.height_px && pixels.shape(1) == output.width_px &&
                      pixels.shape(2) == 3;
    if (!fits) {
      failed = fmt::format(
          "it returned {} and must return a contiguous uint8 array of shape ({}, "
          "{}, 3); give python_function size=(height, width) for another one",
          what_is(result), output.height_px, output.width_px);
    } else {
      const std::size_t row_bytes = std::size_t{3} * output.width_px;
      for (std::uint32_t y = 0; y < output.height_px; ++y) {
        std::memcpy(output.rgb + y * output.row_bytes, pixels.data() + y * row_bytes, row_bytes);
      }
    }
  } catch (const nb::python_error& error) {
    // SystemExit, KeyboardInterrupt: the program is to end, no picture is at fault.
    if (!error.matches(PyExc_Exception)) throw UserExit{std::make_shared<nb::python_error>(error)};
    failed = fmt::format("{}: {}", text_of(error.type().attr("__name__")), text_of(error.value()));
    if (keeps_raised_) raised_.keep(failed, without_locals(error));
  }
  if (!failed.empty()) throw std::runtime_error(failed);
}

}  // namespace feedrace::python
