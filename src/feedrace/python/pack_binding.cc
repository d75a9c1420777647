// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/pack_binding.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "feedrace/pack.h"
#include "feedrace/python/interpreter_lock.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

std::string bytes_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

const char* name_of(pack::PackProgress::Phase phase) noexcept {
  switch (phase) {
    case pack::PackProgress::Phase::kPlan:
      return "plan";
    case pack::PackProgress::Phase::kShards:
      return "shards";
    case pack::PackProgress::Phase::kIndex:
      return "index";
  }
  return "";
}

/// Asks Python now and then whether the program is to end, and tells `callback` unless it is None.
std::function<void(const pack::PackProgress&)> progress_of(nb::object callback) {
  return [callback = std::move(callback)](const pack::PackProgress& progress) {
    const Locked locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (callback.is_none()) return;
    callback(name_of(progress.phase), progress.sample_count, progress.size_bytes, progress.share);
  };
}

pack::PictureChange pictures_of(const nb::dict& given) {
  pack::PictureChange change;
  const auto has = [&](const char* name) { return given.contains(name); };
  const char* side = has("resize") ? "resize" : "raw";
  if (has(side)) change.side_px = nb::cast<std::uint32_t>(given[side]);
  if (change.side_px != 0) {
    const bool is_longest = has("is_longest") && nb::cast<bool>(given["is_longest"]);
    change.resize =
        is_longest ? pack::PictureChange::Resize::kLongest : pack::PictureChange::Resize::kShortest;
  }
  if (has("quality")) change.jpeg_quality = nb::cast<int>(given["quality"]);
  if (has("baseline")) change.baseline = nb::cast<bool>(given["baseline"]);
  if (has("restart_rows")) change.restart_rows = nb::cast<unsigned>(given["restart_rows"]);
  if (has("raw")) {
    const auto name = nb::cast<std::string>(given["compress"]);
    change.raw = pack::RawOptions{pack::raw_compression(name).value()};
  }
  return change;
}

/// Takes options by name: those that are not there stay as they are.
pack::PackOptions options_of(const nb::dict& given, nb::object progress) {
  pack::PackOptions options;
  const auto read = [&](const char* name, auto& target) {
    if (given.contains(name)) target = nb::cast<std::decay_t<decltype(target)>>(given[name]);
  };
  const auto read_bytes = [&](const char* name, std::string& target) {
    if (given.contains(name)) target = bytes_of(nb::cast<nb::bytes>(given[name]));
  };
  if (given.contains("sources")) {
    for (const nb::handle source : nb::cast<nb::list>(given["sources"])) {
      options.sources.push_back(bytes_of(nb::cast<nb::bytes>(source)));
    }
  }
  read_bytes("folder", options.folder);
  read_bytes("prefix", options.prefix);
  read_bytes("exclude", options.exclude_file);
  read_bytes("io", options.backend);
  read("shards", options.shard_count);
  read("shard_size", options.shard_size_bytes);
  read("shuffle", options.shuffle);
  read("seed", options.seed);
  read("align", options.align);
  read("crop_index", options.make_crop_index);
  read("num_threads", options.thread_count);
  options.pictures = pictures_of(given);
  bool skips = false;
  read("skips", skips);
  if (skips) options.on_error = pack::OnSourceError::kSkip;
  std::pair<std::uint64_t, std::uint64_t> part(1, 1);
  read("part", part);
  options.part = {part.first, part.second};
  options.progress = progress_of(std::move(progress));
  return options;
}

nb::bytes as_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

/// For programs, and for a person.
using Told = std::pair<nb::bytes, nb::bytes>;

template <typename Described>
std::pair<std::string, std::string> describe(const Described& described) {
  return {to_json(described), to_text(described)};
}

Told as_told(const std::pair<std::string, std::string>& texts) {
  return {as_bytes(texts.first), as_bytes(texts.second)};
}

Told pack_set(const nb::dict& given, nb::object progress, bool is_dry_run) {
  pack::PackOptions options = options_of(given, std::move(progress));
  std::pair<std::string, std::string> texts;
  {
    const Unlocked unlocked;
    pack::Packer packer(options);
    texts = is_dry_run ? describe(packer.plan()) : describe(packer.run());
  }
  return as_told(texts);
}

Told finish_pack(const nb::dict& given, nb::object progress) {
  const pack::PackOptions options = options_of(given, std::move(progress));
  std::pair<std::string, std::string> texts;
  {
    const Unlocked unlocked;
    texts = describe(pack::finish_parts(options));
  }
  return as_told(texts);
}

}  // namespace

void bind_pack(nb::module_& module) {
  module.def("pack", &pack_set, nb::arg("options"), nb::arg("progress").none(), nb::arg("dry_run"),
             "Packs, or plans only; the report or plan as JSON, and as lines for a person.");
  module.def("finish_pack", &finish_pack, nb::arg("options"), nb::arg("progress").none(),
             "Makes one set of parts; the report as JSON, and as lines for a person.");
}

}  // namespace feedrace::python
