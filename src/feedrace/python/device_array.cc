// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/device_array.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/python/arrays.h"
#include "feedrace/python/interpreter_lock.h"
#include "feedrace/python/native_error.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

// What DLPack and the CUDA Array Interface mean by a number of a stream; others are handles.
constexpr std::int64_t kNoStream = -1;
constexpr std::int64_t kAmbiguousStream = 0;
constexpr std::int64_t kLegacyStream = 1;
constexpr std::int64_t kPerThreadStream = 2;

class DeviceArray {
 public:
  DeviceArray(Tensor tensor, std::shared_ptr<Batch> batch)
      : tensor_(std::move(tensor)), batch_(std::move(batch)) {}
  DeviceArray(DeviceArray&&) = default;
  DeviceArray& operator=(DeviceArray&&) = default;
  /// The last batch of a loader that is gone gives device memory back, which waits for the device.
  ~DeviceArray() {
    if (!batch_) return;
    const Unlocked unlocked;
    batch_.reset();
  }

  const Tensor& tensor() const noexcept { return tensor_; }
  std::string device_name() const { return fmt::format("cuda:{}", tensor_.device); }
  nb::tuple shape() const {
    nb::list sides;
    for (const std::int64_t side : tensor_.shape) sides.append(side);
    return nb::tuple(sides);
  }

  std::int64_t length() const {
    if (!tensor_.shape.empty()) return tensor_.shape.front();
    throw nb::type_error("len() of a DeviceArray of one number");
  }
  /// One of the first dimension, without a copy.
  DeviceArray at(std::int64_t index) const {
    const std::int64_t count = length();
    const std::int64_t place = index < 0 ? index + count : index;
    if (place < 0 || place >= count) {
      throw nb::index_error(fmt::format("DeviceArray: {} of {}", index, count).c_str());
    }
    Tensor part = tensor_;
    part.shape.erase(part.shape.begin());
    part.data = static_cast<std::byte*>(tensor_.data) +
                static_cast<std::size_t>(place) * (tensor_.size_bytes() / count);
    return {std::move(part), batch_};
  }

  void hand_over(std::int64_t stream) const;
  void synchronize() const {
    const Unlocked unlocked;
    batch_->on_device->wait();
  }
  nb::object to_host() const;
  nb::object to_dlpack(nb::handle stream, nb::handle max_version, nb::handle target,
                       nb::handle copy) const;
  nb::dict cuda_array_interface() const;
  [[noreturn]] void refuse_host_array() const {
    refuse(
        fmt::format("DeviceArray: NumPy asks for memory of {}, which only the GPU reads; copy "
                    "it by .numpy(), or take device=\"cpu\"",
                    device_name()));
  }
  std::string text() const {
    return fmt::format("<feedrace.DeviceArray of {} {} on {}>", nb::str(shape()).c_str(),
                       to_string(tensor_.dtype), device_name());
  }

 private:
  Tensor tensor_;
  std::shared_ptr<Batch> batch_;
};

/// The legacy default stream orders itself with the default streams of all threads, before and
/// after: it stands for those, whichever thread drops the batch.
void DeviceArray::hand_over(std::int64_t stream) const {
  if (stream == kNoStream) return;
  if (stream == kAmbiguousStream) {
    refuse(
        "DeviceArray: stream is 0, which DLPack leaves open; give 1 for the default stream, 2 for "
        "that of each thread, -1 to synchronize yourself, or a handle");
  }
  if (stream < kNoStream) refuse(fmt::format("DeviceArray: stream is {}; give a handle", stream));
  const bool is_default = stream == kLegacyStream || stream == kPerThreadStream;
  python::hand_over(*batch_, is_default ? 0 : static_cast<std::uint64_t>(stream));
}

nb::object DeviceArray::to_host() const {
  Tensor copy = tensor_;
  auto memory = std::make_shared<std::vector<std::byte>>();
  {
    const Unlocked unlocked;
    memory->resize(tensor_.size_bytes());
    batch_->on_device->read(tensor_, memory->data());
  }
  copy.data = memory->data();
  copy.device = -1;
  return array_of(copy, memory);
}

/// As the Python array API specifies it, on CUDA.
nb::object DeviceArray::to_dlpack(nb::handle stream, nb::handle max_version, nb::handle target,
                                  nb::handle copy) const {
  nb::dict options;
  options["max_version"] = max_version;
  const nb::object host = nb::make_tuple(1, 0);
  if (target.is_valid() && target.equal(host)) {
    if (copy.is(nb::bool_(false))) {
      throw nb::buffer_error("DeviceArray: memory of a GPU comes to the host by a copy alone");
    }
    return to_host().attr("__dlpack__")(**options);
  }
  options["dl_device"] = target;
  options["copy"] = copy;
  // Refuses what can't be, before anybody's stream waits.
  nb::object capsule = array_of(tensor_, batch_).attr("__dlpack__")(**options);
  std::int64_t handle = kLegacyStream;
  if (!stream.is_none() && (nb::isinstance<nb::bool_>(stream) || !nb::try_cast(stream, handle))) {
    refuse(fmt::format("DeviceArray: stream is {}; give a whole number", nb::repr(stream).c_str()));
  }
  hand_over(handle);
  return capsule;
}

/// Version 3: who takes it orders its work behind the stream that it names.
nb::dict DeviceArray::cuda_array_interface() const {
  hand_over(kLegacyStream);
  const char* type = "<f4";
  switch (tensor_.dtype) {
    case DType::kUint8:
      type = "|u1";
      break;
    case DType::kFloat16:
      type = "<f2";
      break;
    case DType::kInt64:
      type = "<i8";
      break;
    case DType::kFloat32:
      break;
  }
  nb::dict members;
  members["shape"] = shape();
  members["typestr"] = type;
  members["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(tensor_.data), false);
  members["strides"] = nb::none();
  members["version"] = 3;
  members["stream"] = kLegacyStream;
  return members;
}

}  // namespace

void hand_over(const Batch& batch, std::uint64_t stream) {
  const Unlocked unlocked;
  batch.on_device->hand_over(stream);
}

nb::object device_array_of(const Tensor& tensor, std::shared_ptr<Batch> batch) {
  return nb::cast(DeviceArray(tensor, std::move(batch)));
}

void bind_device_array(nb::module_& module) {
  nb::class_<DeviceArray>(
      module, "DeviceArray",
      "Memory of a GPU, which is the consumer's until the last array over it is gone.\n\n"
      "torch.from_dlpack, jax.dlpack.from_dlpack and cupy.from_dlpack take it without a copy, and "
      "make\ntheir stream go on behind the copies to the GPU. Work on another stream must be "
      "behind that one's,\nand before it again when the array is dropped.")
      .def_prop_ro("shape", &DeviceArray::shape)
      .def_prop_ro("ndim", [](const DeviceArray& self) { return self.tensor().shape.size(); })
      .def_prop_ro(
          "dtype", [](const DeviceArray& self) { return to_string(self.tensor().dtype); },
          "\"float16\", as NumPy and torch spell it.")
      .def_prop_ro("nbytes", [](const DeviceArray& self) { return self.tensor().size_bytes(); })
      .def_prop_ro("device", &DeviceArray::device_name, "\"cuda:0\"")
      .def("__len__", &DeviceArray::length)
      .def("__getitem__", &DeviceArray::at, nb::arg("index"),
           "One of the first dimension, without a copy.")
      .def("__dlpack__", &DeviceArray::to_dlpack, nb::kw_only(),
           nb::arg("stream").none() = nb::none(), nb::arg("max_version").none() = nb::none(),
           nb::arg("dl_device").none() = nb::none(), nb::arg("copy").none() = nb::none(),
           "stream: None or 1 the default stream, 2 that of each thread, -1 none, or a handle; it "
           "goes on behind\nthe copies. dl_device=(1, 0) copies to the host.")
      .def("__dlpack_device__",
           [](const DeviceArray& self) {
             return nb::make_tuple(static_cast<int>(nb::device::cuda::value), self.tensor().device);
           })
      .def_prop_ro("__cuda_array_interface__", &DeviceArray::cuda_array_interface,
                   "Version 3, on the default stream.")
      .def(
          "__array__",
          [](const DeviceArray& self, const nb::args&, const nb::kwargs&) -> nb::object {
            self.refuse_host_array();
          },
          "Refused: a copy to the host is asked for by name.")
      .def(
          "numpy",
          [](const DeviceArray& self) {
            return nb::module_::import_("numpy").attr("from_dlpack")(self.to_host());
          },
          "A copy on the host, of NumPy; waits for it.")
      .def("hand_over", &DeviceArray::hand_over, nb::arg("stream"),
           "Makes a stream, as of __dlpack__, go on behind the copies to the GPU; the memory "
           "returns behind what is\non it when the array is dropped.")
      .def("synchronize", &DeviceArray::synchronize, "Waits until the memory is filled.")
      .def("__repr__", &DeviceArray::text);
}

}  // namespace feedrace::python
