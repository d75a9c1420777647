// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/loader_binding.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/loader.h"
#include "feedrace/python/batch_binding.h"
#include "feedrace/python/interpreter_lock.h"
#include "feedrace/python/loader_options.h"
#include "feedrace/python/native_error.h"
#include "feedrace/python/py_loader.h"
#include "feedrace/python/text.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

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
  out["crop_indexed"] = stats.crop_indexed;
  out["crop_index_refused"] = stats.crop_index_refused;
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
  out["device"] = nb::none();  // Batches stay in host memory.
  if (const auto& device = stats.device) {
    nb::dict one;
    one["copied_bytes"] = device->copied_bytes;
    one["hardware_decoded"] = device->hardware_decoded;
    one["software_decoded"] = device->software_decoded;
    one["host_decoded"] = device->host_decoded;
    one["already_decoded"] = device->already_decoded;
    one["slots"] = device->slots;
    out["device"] = one;
  }
  nb::dict jpeg;
  jpeg["feedrace"] = stats.jpeg.feedrace;
  jpeg["libjpeg_turbo"] = stats.jpeg.libjpeg_turbo;
  jpeg["damaged"] = stats.jpeg.damaged;
  jpeg["kind"] = stats.jpeg.kind;  // None where it is null.
  out["jpeg"] = jpeg;
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
  const std::string text =
      loader.look([&](Loader& native) { return native.trace_sample(sample, pass); });
  return nb::module_::import_("json").attr("loads")(text);
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
          "start_trace",
          [](PyLoader& self, const nb::bytes& path) {
            const std::string file(path.c_str(), path.size());
            self.look([&](Loader& native) { native.start_trace(file); });
          },
          nb::arg("path"), "Writes what every thread does to a file, until stop_trace().")
      .def(
          "stop_trace", [](PyLoader& self) { self.look([](Loader& n) { n.stop_trace(); }); },
          "Ends the file; Error where it could not be written.")
      .def(
          "cancel", [](PyLoader& self) { self->cancel(); },
          "Ends a next() that waits, for good; from any thread.");
}

void bind_facts(nb::class_<PyLoader>& loader) {
  loader
      .def_prop_ro(
          "metrics_address", [](const PyLoader& self) { return self->metrics_address(); },
          "Where metrics are served; empty: nowhere.")
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
          "verdict",
          [](const PyLoader& self, std::string ceilings, std::optional<std::string> gpu_dmon) {
            return self->verdict({std::move(ceilings), std::move(gpu_dmon)}).to_json();
          },
          nb::arg("ceilings"), nb::arg("gpu_dmon").none(),
          "What limits, as JSON; with what bench ceilings and nvidia-smi dmon wrote.")
      .def(
          "note_handing", [](const PyLoader& self, double seconds) { self->note_handing(seconds); },
          nb::arg("seconds"), "Time that Python took to make a batch what the loop gets.")
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
      .def("trace_sample", &traced, nb::arg("index"), nb::arg("epoch"),
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
