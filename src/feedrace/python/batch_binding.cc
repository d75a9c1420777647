// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/batch_binding.h"

#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/python/arrays.h"
#include "feedrace/python/device_array.h"
#include "feedrace/python/interpreter_lock.h"
#include "feedrace/python/native_error.h"
#include "feedrace/python/text.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

nb::object field_of(const Batch& batch, const std::string& name) {
  for (const FieldColumn& field : batch.fields) {
    if (field.name != name) continue;
    nb::list values;
    for (const auto& value : field.values) {
      values.append(value ? nb::object(nb::bytes(value->data(), value->size())) : nb::none());
    }
    return values;
  }
  std::string names;
  for (const FieldColumn& field : batch.fields) names += (names.empty() ? "" : ", ") + field.name;
  refuse(fmt::format("the batch has no field {:?}; it has {}", name,
                     names.empty() ? "none: name fields when the loader is made" : names));
}

nb::object array_in(const Tensor& tensor, const std::shared_ptr<Batch>& batch) {
  return tensor.device < 0 ? array_of(tensor, batch) : device_array_of(tensor, batch);
}

nb::object images_of(const std::shared_ptr<Batch>& batch) {
  const bool is_dense = batch->image_list.empty() && batch->images.size_bytes() > 0;
  return is_dense ? array_in(batch->images, batch) : nb::none();
}

nb::list image_list_of(const std::shared_ptr<Batch>& batch) {
  nb::list list;
  for (const Tensor& image : batch->image_list) list.append(array_in(image, batch));
  return list;
}

/// A small array in memory of its own.
template <typename T>
nb::object copied(std::vector<T> values, DType dtype, std::vector<std::int64_t> shape) {
  auto held = std::make_shared<std::vector<T>>(std::move(values));
  return array_of({held->data(), dtype, std::move(shape)}, held);
}

/// The pictures of a batch in one buffer, with the batch: what is kept of it counts against the
/// memory limit.
struct Joined {
  std::shared_ptr<Batch> batch;
  std::unique_ptr<std::byte[]> memory;
  std::byte* begin;
};

std::shared_ptr<Joined> joined(const std::shared_ptr<Batch>& batch, std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  auto values = std::make_shared<Joined>();
  values->batch = batch;
  const Unlocked unlocked;
  values->memory = std::make_unique_for_overwrite<std::byte[]>(bytes + kAlignment);
  void* begin = values->memory.get();
  std::size_t space = bytes + kAlignment;
  values->begin = static_cast<std::byte*>(std::align(kAlignment, bytes, begin, space));
  std::size_t at = 0;
  for (const Tensor& image : batch->image_list) {
    std::memcpy(values->begin + at, image.data, image.size_bytes());
    at += image.size_bytes();
  }
  return values;
}

/// On a GPU nothing is copied: there the pictures of a batch lie in one buffer.
void check_is_joined(const std::vector<Tensor>& images) {
  const auto* end = static_cast<const std::byte*>(images.front().data);
  for (const Tensor& image : images) {
    if (image.data != end) {
      throw Error(ErrorCode::kUnsupported,
                  "jagged(): the pictures of this batch don't lie one behind the other on the GPU; "
                  "take ragged=\"list\"");
    }
    end += image.size_bytes();
  }
}

/// All images one behind the other: values, offsets [N + 1] in elements, shapes [N, 3].
nb::tuple jagged_of(const std::shared_ptr<Batch>& batch) {
  if (batch->image_list.empty()) {
    refuse("jagged(): the pictures of this batch have one size; take images");
  }
  const Tensor& first = batch->image_list.front();
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int64_t> shapes;
  std::size_t bytes = 0;
  for (const Tensor& image : batch->image_list) {
    bytes += image.size_bytes();
    offsets.push_back(static_cast<std::int64_t>(bytes / size_of(first.dtype)));
    shapes.insert(shapes.end(), image.shape.begin(), image.shape.end());
  }
  Tensor values{first.data, first.dtype, {offsets.back()}, first.device};
  nb::object array;
  if (batch->on_device) {
    check_is_joined(batch->image_list);
    array = device_array_of(values, batch);
  } else {
    const auto memory = joined(batch, bytes);
    values.data = memory->begin;
    array = array_of(values, memory);
  }
  const auto images = static_cast<std::int64_t>(batch->size());
  return nb::make_tuple(array, copied(std::move(offsets), DType::kInt64, {images + 1}),
                        copied(std::move(shapes), DType::kInt64, {images, 3}));
}

nb::object labels_of(const std::shared_ptr<Batch>& batch) { return array_in(batch->labels, batch); }

// Numbers and flags are the loader's to read, so the array is of a copy: 8 bytes a sample.
nb::object indices_of(const Batch& batch) {
  return copied(std::vector<std::int64_t>(batch.indices.begin(), batch.indices.end()),
                DType::kInt64, {static_cast<std::int64_t>(batch.size())});
}

nb::object flags_of(const Batch& batch) {
  std::vector<std::uint8_t> flags;
  for (const SampleFlag flag : batch.flags) flags.push_back(static_cast<std::uint8_t>(flag));
  return copied(std::move(flags), DType::kUint8, {static_cast<std::int64_t>(batch.size())});
}

nb::list keys_of(const PyBatch& self) {
  std::vector<std::string> keys;
  {
    // Should this be the last one to hold the loader, its threads end here: not under the lock.
    const Unlocked unlocked;
    const std::shared_ptr<const Loader> loader = self.loader.lock();
    if (!loader) refuse("keys: the loader of this batch is gone; take keys while it lives");
    for (const std::uint64_t index : self.batch->indices)
      keys.push_back(loader->dataset().key(index));
  }
  return decoded(keys);
}

void hand_batch_over(const PyBatch& self, std::uint64_t stream) {
  if (!self.batch->on_device) {
    refuse("hand_over(): the batch is in memory of the host, which has no streams");
  }
  hand_over(*self.batch, stream);
}

}  // namespace

void bind_batch(nb::module_& module) {
  nb::class_<PyBatch>(module, "Batch",
                      "What the loader gives: arrays that hold their memory, also beyond the "
                      "loader.")
      .def_prop_ro(
          "size", [](const PyBatch& self) { return self.batch->size(); }, "Number of samples.")
      .def_prop_ro("epoch", [](const PyBatch& self) { return self.batch->epoch; })
      .def_prop_ro(
          "step", [](const PyBatch& self) { return self.batch->step; },
          "Number of this batch in its epoch, from 0.")
      .def_prop_ro(
          "position", [](const PyBatch& self) { return self.batch->position; },
          "In its epoch, of the first sample of all ranks' batches.")
      .def_prop_ro(
          "images", [](const PyBatch& self) { return images_of(self.batch); },
          "[N, 3, H, W] or [N, H, W, 3], 64-byte aligned, writable; None when pictures "
          "differ in size or are not decoded.")
      .def_prop_ro(
          "image_list", [](const PyBatch& self) { return image_list_of(self.batch); },
          "When pictures differ in size: N of [3, H, W] or [H, W, 3].")
      .def(
          "jagged", [](const PyBatch& self) { return jagged_of(self.batch); },
          "Pictures of different sizes as (values [E], offsets int64 [N + 1] in elements, shapes "
          "int64 [N, 3]); one copy.")
      .def_prop_ro(
          "labels", [](const PyBatch& self) { return labels_of(self.batch); },
          "int64 [N]; -1 where the data set has no labels.")
      .def_prop_ro(
          "indices", [](const PyBatch& self) { return indices_of(*self.batch); },
          "int64 [N]: global numbers of the samples.")
      .def_prop_ro(
          "flags", [](const PyBatch& self) { return flags_of(*self.batch); },
          "uint8 [N]: 0 as stored, 1 a repeat that fills the batch, 2 a stand-in for a bad "
          "sample, 3 zeros for a bad one.")
      .def_prop_ro("keys", &keys_of, "[N] of str; Error once the loader is gone.")
      .def(
          "field",
          [](const PyBatch& self, const std::string& name) { return field_of(*self.batch, name); },
          nb::arg("name"), "[N] of bytes as stored; None where a sample has none.")
      .def_prop_ro(
          "device", [](const PyBatch& self) { return self.batch->labels.device; },
          "Number of the GPU that has images and labels; -1: they are in memory of the host.")
      .def("hand_over", &hand_batch_over, nb::arg("stream"),
           "Makes a stream of CUDA, by its handle (0 the default stream), go on behind the copies "
           "to the GPU.");
}

}  // namespace feedrace::python
