// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/loader_binding.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/loader.h"
#include "feedrace/python/arrays.h"
#include "feedrace/python/interpreter_lock.h"
#include "feedrace/python/loader_options.h"
#include "feedrace/python/native_error.h"
#include "feedrace/python/py_loader.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

/// Text that may hold bytes that are not UTF-8, such as paths and keys, as os.fsdecode has it.
nb::object decoded(const std::string& text) {
  PyObject* made =
      PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

nb::list decoded(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(decoded(text));
  return list;
}

/// A batch; arrays of it hold it, and by it the memory.
struct PyBatch {
  std::shared_ptr<Batch> batch;
  std::weak_ptr<const Loader> loader;  ///< For keys; a batch may outlive it.
};

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

nb::object images_of(const std::shared_ptr<Batch>& batch) {
  const bool is_dense = batch->image_list.empty() && batch->images.size_bytes() > 0;
  return is_dense ? array_of(batch->images, batch) : nb::none();
}

nb::list image_list_of(const std::shared_ptr<Batch>& batch) {
  nb::list list;
  for (const Tensor& image : batch->image_list) list.append(array_of(image, batch));
  return list;
}

/// A small array in memory of its own.
template <typename T>
nb::object copied(std::vector<T> values, DType dtype, std::vector<std::int64_t> shape) {
  auto held = std::make_shared<std::vector<T>>(std::move(values));
  return array_of({held->data(), dtype, std::move(shape)}, held);
}

/// All images one behind the other: values, offsets [N + 1] in elements, shapes [N, 3].
/// The values hold the batch as well: what is kept of it counts against the memory limit.
nb::tuple jagged_of(const std::shared_ptr<Batch>& held) {
  const Batch& batch = *held;
  if (batch.image_list.empty()) {
    refuse("jagged(): the pictures of this batch have one size; take images");
  }
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int64_t> shapes;
  std::size_t bytes = 0;
  const DType dtype = batch.image_list.front().dtype;
  for (const Tensor& image : batch.image_list) {
    bytes += image.size_bytes();
    offsets.push_back(static_cast<std::int64_t>(bytes / size_of(dtype)));
    shapes.insert(shapes.end(), image.shape.begin(), image.shape.end());
  }
  struct Values {
    std::shared_ptr<Batch> batch;
    std::unique_ptr<std::byte[]> memory;
    std::byte* begin;
  };
  constexpr std::size_t kAlignment = 64;
  auto values = std::make_shared<Values>();
  values->batch = held;
  {
    const Unlocked unlocked;
    values->memory = std::make_unique_for_overwrite<std::byte[]>(bytes + kAlignment);
    void* begin = values->memory.get();
    std::size_t space = bytes + kAlignment;
    values->begin = static_cast<std::byte*>(std::align(kAlignment, bytes, begin, space));
    std::size_t at = 0;
    for (const Tensor& image : batch.image_list) {
      std::memcpy(values->begin + at, image.data, image.size_bytes());
      at += image.size_bytes();
    }
  }
  const std::int64_t count = offsets.back();
  const auto images = static_cast<std::int64_t>(batch.size());
  return nb::make_tuple(array_of({values->begin, dtype, {count}}, values),
                        copied(std::move(offsets), DType::kInt64, {images + 1}),
                        copied(std::move(shapes), DType::kInt64, {images, 3}));
}

nb::object labels_of(const std::shared_ptr<Batch>& batch) { return array_of(batch->labels, batch); }

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

nb::dict stats_of(const Stats& stats) {
  nb::dict out;
  out["seconds"] = stats.seconds;
  out["samples"] = stats.samples;
  out["batches"] = stats.batches;
  out["bad_samples"] = stats.bad_samples;
  out["substituted_samples"] = stats.substituted_samples;
  out["blanked_samples"] = stats.blanked_samples;
  out["padded_samples"] = stats.padded_samples;
  out["flagged_samples"] = stats.flagged_samples;
  out["extra_slots"] = stats.extra_slots;
  nb::dict paths;
  for (std::size_t i = 0; i < kPathCount; ++i) {
    if (stats.bytes_by_path[i] > 0) paths[to_string(static_cast<Path>(i))] = stats.bytes_by_path[i];
  }
  out["bytes_by_path"] = paths;
  out["copies_per_byte"] = stats.copies_per_byte();
  out["reads"] = stats.reads;
  out["read_latency_ms"] = nb::dict();
  for (const auto& [name, quantile] : {std::pair("p50", 0.5), {"p99", 0.99}, {"max", 1.0}}) {
    out["read_latency_ms"][name] =
        static_cast<double>(stats.read_latency.quantile_ns(quantile)) * 1e-6;
  }
  nb::dict stages;
  for (const StageStats& stage : stats.stages) {
    nb::dict one;
    one["threads"] = stage.thread_count;
    one["busy_seconds"] = stage.busy_seconds;
    one["wait_seconds"] = stage.wait_seconds;
    one["cpu_seconds"] = stage.cpu_seconds;
    one["items"] = stage.item_count;
    stages[stage.name.c_str()] = one;
  }
  out["stages"] = stages;
  out["backend"] = stats.backend;
  nb::dict fallbacks;
  for (const FallbackCount& fallback : stats.fallbacks) {
    fallbacks[decoded(fallback.sentence)] = fallback.count;
  }
  out["fallbacks"] = fallbacks;
  if (const auto& cache = stats.shared_cache) {
    nb::dict one;
    one["hits"] = cache->hits;
    one["misses"] = cache->misses;
    one["full"] = cache->full;
    one["busy"] = cache->busy;
    one["entries"] = cache->entries;
    one["filled_bytes"] = cache->filled_bytes;
    one["limit_bytes"] = cache->limit_bytes;
    out["shared_cache"] = one;
  }
  out["complaints"] = decoded(stats.complaints);
  return out;
}

std::uint64_t checked_sample(const Loader& loader, std::uint64_t sample) {
  const std::uint64_t count = loader.dataset().size();
  if (sample >= count) {
    refuse(
        fmt::format("there is no sample {}; the data set has {}, counted from 0", sample, count));
  }
  return sample;
}

/// Ctrl-C that came with the batch would be raised before anybody has it: then it did not come.
void go_back_if_interrupted(Loader& native, const Batch& batch) {
  try {
    check_signals();
  } catch (const nb::python_error&) {
    native.load_state(native.state_before(batch));
    throw;
  }
}

nb::object next_of(PyLoader& loader) {
  std::shared_ptr<Batch> made = loader.move([](Loader& native) -> std::shared_ptr<Batch> {
    std::optional<Batch> batch = native.next();
    if (!batch) return nullptr;
    go_back_if_interrupted(native, *batch);
    return std::make_shared<Batch>(*std::move(batch));
  });
  return made ? nb::cast(PyBatch{std::move(made), loader.weak()}) : nb::none();
}

nb::object traced(const PyLoader& loader, std::uint64_t sample, std::uint64_t pass) {
  const std::string text = loader.look([&](Loader& native) { return native.trace(sample, pass); });
  return nb::module_::import_("json").attr("loads")(text);
}

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
          nb::arg("name"), "[N] of bytes as stored; None where a sample has none.");
}

void bind_moves(nb::class_<PyLoader>& loader) {
  loader.def(nb::init<const nb::kwargs&>(), kLoaderOptionsDoc)
      .def("next", &next_of,
           "The next batch; None at the end of the epoch, and the call after that begins the next.")
      .def(
          "pause", [](PyLoader& self) { self.move([](Loader& native) { native.pause(); }); },
          "Ends all threads and gives memory back; next() goes on behind the last batch.")
      .def("interrupt", &PyLoader::interrupt, nb::arg("is_on"),
           "On: a next() that waits, on whatever thread, gives Error cancelled, until it is off.")
      .def("leave", &PyLoader::leave,
           "Ends all threads for good, and waits until no thread of Python is inside.")
      .def(
          "set_epoch",
          [](PyLoader& self, std::uint64_t epoch) {
            self.move([&](Loader& native) { native.set_epoch(epoch); });
          },
          nb::arg("epoch"), "Begins the epoch anew, unless a state that was just loaded is in it.")
      .def(
          "load_state",
          [](PyLoader& self, const std::string& state, bool accept_changed_data) {
            return decoded(self.move(
                [&](Loader& native) { return native.load_state(state, accept_changed_data); }));
          },
          nb::arg("state"), nb::arg("accept_changed_data") = false,
          "Goes on from a state; gives what differs and may, one sentence each.")
      .def(
          "state",
          [](const PyLoader& self) {
            return self.look([](Loader& native) { return native.state(); });
          },
          "One line of JSON: behind the last batch.")
      .def(
          "state_after",
          [](const PyLoader& self, const PyBatch& batch) {
            return self.look([&](Loader& native) { return native.state_after(*batch.batch); });
          },
          nb::arg("batch"), "The state right behind a batch of this loader.")
      .def(
          "state_before",
          [](const PyLoader& self, const PyBatch& batch) {
            return self.look([&](Loader& native) { return native.state_before(*batch.batch); });
          },
          nb::arg("batch"), "The state right before a batch of this loader.")
      .def(
          "cancel", [](PyLoader& self) { self->cancel(); },
          "Ends a next() that waits, for good; from any thread.");
}

void bind_facts(nb::class_<PyLoader>& loader) {
  loader
      .def_prop_ro(
          "epoch", [](const PyLoader& self) { return self->epoch(); }, "Of the next batch.")
      .def(
          "plan_text", [](const PyLoader& self) { return decoded(self->plan().to_text()); },
          "The plan for a person.")
      .def(
          "plan_json", [](const PyLoader& self) { return self->plan().to_json(); },
          "The plan as JSON.")
      .def(
          "stats", [](const PyLoader& self) { return stats_of(self->stats()); },
          "Counters since the loader was made.")
      .def(
          "explain", [](const PyLoader& self) { return decoded(self->explain()); },
          "What limits, with the evidence.")
      .def_prop_ro(
          "classes", [](const PyLoader& self) { return decoded(self->dataset().classes()); },
          "Names by class number; empty when only numbers are known.")
      .def_prop_ro(
          "sample_count", [](const PyLoader& self) { return self->dataset().size(); },
          "Of the data sets, before any subset.")
      .def_prop_ro(
          "stored_fields",
          [](const PyLoader& self) { return decoded(self->dataset().stored_fields()); },
          "Names of the fields that samples have in their shards.")
      .def(
          "key",
          [](const PyLoader& self, std::uint64_t index) {
            return decoded(self->dataset().key(checked_sample(*self.native(), index)));
          },
          nb::arg("index"), "Of a sample.")
      .def(
          "where",
          [](const PyLoader& self, std::uint64_t index) {
            return decoded(self->dataset().where(checked_sample(*self.native(), index)));
          },
          nb::arg("index"), "Where a sample lies, for messages.")
      .def(
          "label",
          [](const PyLoader& self, std::uint64_t index) {
            const auto label = self->dataset().label(checked_sample(*self.native(), index));
            if (!label) raise(label.error());
            return *label;
          },
          nb::arg("index"), "Of a sample; -1 where the data set has none.")
      .def("trace", &traced, nb::arg("index"), nb::arg("epoch"),
           "What is done to a sample in an epoch, step by step, with the numbers drawn for it.");
}

}  // namespace

void bind_loader(nb::module_& module) {
  bind_batch(module);
  nb::class_<PyLoader> loader(module, "Loader",
                              "The loader of C++, as it is. Any thread may use it; calls that move "
                              "it, or ask where it stands, wait for each other.",
                              nb::is_weak_referenceable(), nb::type_slots(PyLoader::slots()));
  bind_moves(loader);
  bind_facts(loader);
}

}  // namespace feedrace::python
