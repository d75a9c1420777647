// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/loader_options.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/pipeline/option_names.h"
#include "feedrace/python/held.h"
#include "feedrace/python/interpreter_lock.h"
#include "feedrace/python/native_error.h"
#include "feedrace/python/steps.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

using pipeline::Names;

const Names<Fallback> kFallbacks = {{"warn", Fallback::kWarn}, {"error", Fallback::kError}};
const Names<PageCache> kPageCaches = {
    {"auto", PageCache::kAuto}, {"keep", PageCache::kKeep}, {"drop", PageCache::kDrop}};

/// Takes arguments out of a dict by name; None is as good as not given.
class Arguments {
 public:
  Arguments(std::string owner, const nb::dict& given) : owner_(std::move(owner)), given_(given) {}

  /// The argument, marked as known; null where it is not given.
  nb::object find(const char* name) {
    known_.emplace_back(name);
    if (!given_.contains(name)) return {};
    nb::object value = given_[name];
    return value.is_none() ? nb::object() : value;
  }
  template <typename T>
  void read(const char* name, T& target, const char* wanted) {
    const nb::object value = find(name);
    if (!value.is_valid()) return;
    // A bool is an int to Python, and never what is meant by a number.
    const bool is_number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
    if ((is_number && nb::isinstance<nb::bool_>(value)) || !nb::try_cast(value, target)) {
      wrong(name, value, wanted);
    }
  }
  template <typename T>
  void read(const char* name, std::optional<T>& target, const char* wanted) {
    T value{};
    if (!given_.contains(name) || nb::object(given_[name]).is_none()) {
      known_.emplace_back(name);
      return;
    }
    read(name, value, wanted);
    target = value;
  }
  /// One of some words.
  template <typename T, typename Target>
  void read_name(const char* name, Target& target, const Names<T>& names) {
    std::string word;
    read(name, word, "a str");
    if (word.empty()) return;
    const auto found = names.find(word);
    if (found == names.end()) {
      std::vector<std::string> words;
      for (const auto& [known, unused] : names) words.push_back(known);
      refuse(fmt::format("{}{} is {:?}; it must be one of {}", owner_, name, word,
                         fmt::join(words, ", ")));
    }
    target = found->second;
  }
  void finish() const {
    for (const auto& [key, unused] : given_) {
      const auto name = nb::cast<std::string>(key);
      if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
        refuse(fmt::format("{}there is no argument {:?}; there are {}", owner_, name,
                           fmt::join(known_, ", ")));
      }
    }
  }
  const std::string& owner() const noexcept { return owner_; }
  [[noreturn]] void wrong(const char* name, nb::handle value, const char* wanted) const {
    refuse(fmt::format("{}{} is {}; it must be {}", owner_, name, nb::repr(value).c_str(), wanted));
  }

 private:
  const std::string owner_;
  const nb::dict given_;
  std::vector<std::string> known_;
};

constexpr const char* kCount = "a whole number of at least 0";
constexpr const char* kTexts = "a list of str";

/// Paths as they are, bytes that are not UTF-8 included (as os.fsencode has them).
std::vector<std::string> paths(Arguments& arguments, const char* name) {
  std::vector<std::string> paths;
  const nb::object given = arguments.find(name);
  if (!given.is_valid()) return paths;
  if (!nb::isinstance<nb::sequence>(given) || nb::isinstance<nb::str>(given)) {
    arguments.wrong(name, given, kTexts);
  }
  for (const nb::handle each : given) {
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(each.ptr(), static_cast<void*>(&encoded)) == 0)
      throw nb::python_error();
    const nb::bytes path = nb::steal<nb::bytes>(encoded);
    paths.emplace_back(path.c_str(), path.size());
  }
  return paths;
}

std::string path(Arguments& arguments, const char* name) {
  const nb::object given = arguments.find(name);
  if (!given.is_valid()) return "";
  PyObject* encoded = nullptr;
  if (PyUnicode_FSConverter(given.ptr(), static_cast<void*>(&encoded)) == 0)
    throw nb::python_error();
  const nb::bytes text = nb::steal<nb::bytes>(encoded);
  return {text.c_str(), text.size()};
}

/// A range, a one-dimensional array of 64 bits, or a list: a list of millions would take seconds.
std::vector<std::uint64_t> read_indices(const Arguments& arguments, const nb::object& given) {
  constexpr const char* kWanted = "a list of whole numbers";
  std::vector<std::uint64_t> indices;
  if (PyRange_Check(given.ptr())) {
    std::uint64_t at = 0;
    std::int64_t step = 0;
    if (!nb::try_cast(given.attr("start"), at) || !nb::try_cast(given.attr("step"), step)) {
      arguments.wrong("indices", given, kWanted);
    }
    const std::size_t count = nb::len(given);
    try {
      indices.resize(count);
    } catch (const std::exception&) {
      refuse_for_memory(
          fmt::format("{}indices lists {} samples of 8 bytes each", arguments.owner(), count));
    }
    for (std::uint64_t& index : indices) {
      index = at;
      at += static_cast<std::uint64_t>(step);
    }
    return indices;
  }
  nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> numbers;
  if (nb::try_cast(given, numbers, /*convert=*/false)) {
    indices.assign(numbers.data(), numbers.data() + numbers.size());
  } else if (!nb::try_cast(given, indices)) {
    arguments.wrong("indices", given, kWanted);
  }
  return indices;
}

/// Keys as os.fsencode has them: those of shards may hold bytes that are not UTF-8.
std::vector<std::string> read_keys(const Arguments& arguments, const nb::object& given) {
  std::vector<std::string> keys;
  if (!nb::isinstance<nb::sequence>(given) || nb::isinstance<nb::str>(given)) {
    arguments.wrong("keys", given, kTexts);
  }
  for (const nb::handle each : given) {
    if (!nb::isinstance<nb::str>(each)) arguments.wrong("keys", given, kTexts);
    const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(each.ptr()));
    if (!encoded.is_valid()) throw nb::python_error();
    const auto key = nb::borrow<nb::bytes>(encoded);
    keys.emplace_back(key.c_str(), key.size());
  }
  return keys;
}

/// What is called later is added to `held`.
Subset read_subset(const nb::object& given, std::vector<Held>& held) {
  Subset subset;
  if (!given.is_valid()) return subset;
  if (!nb::isinstance<nb::dict>(given))
    refuse("subset is not a dict; give share, keys, key_pattern, key_filter or indices");
  Arguments arguments("subset: ", nb::borrow<nb::dict>(given));
  if (const nb::object keys = arguments.find("keys"); keys.is_valid()) {
    subset.keys = read_keys(arguments, keys);
  }
  arguments.read("key_pattern", subset.key_pattern, "a str");
  arguments.read("key_filter_name", subset.key_filter_name, "a str");
  if (nb::object filter = arguments.find("key_filter"); filter.is_valid()) {
    held.push_back(hold(std::move(filter)));
    subset.key_filter = [call = held.back()](std::string_view key) {
      const Locked lock;
      const nb::object text = nb::steal(
          PyUnicode_DecodeFSDefaultAndSize(key.data(), static_cast<Py_ssize_t>(key.size())));
      if (!text.is_valid()) throw nb::python_error();
      return nb::cast<bool>(nb::bool_((*call)(text)));
    };
  }
  arguments.read("share_salt", subset.share_salt, kCount);
  if (const nb::object indices = arguments.find("indices"); indices.is_valid()) {
    subset.indices = read_indices(arguments, indices);
  }
  if (const nb::object share = arguments.find("share"); share.is_valid()) {
    if (!nb::isinstance<nb::sequence>(share) || nb::len(share) != 2) {
      arguments.wrong("share", share, "(begin, end) of [0, 1]");
    }
    subset.share = Subset::Share{nb::cast<double>(share[0]), nb::cast<double>(share[1])};
  }
  arguments.finish();
  return subset;
}

formats::OpenOptions read_format(Arguments& arguments) {
  formats::OpenOptions format;
  arguments.read("image_fields", format.image_fields, kTexts);
  arguments.read("label_field", format.label_field, "a str");
  arguments.read("label_json_key", format.label_json_key, "a str");
  format.label_file = path(arguments, "label_file");
  format.cache_dir = path(arguments, "cache_dir");
  return format;
}

std::vector<DataSource> read_sets(const nb::object& given, const formats::OpenOptions& format,
                                  std::vector<Held>& held) {
  std::vector<DataSource> sets;
  if (!given.is_valid()) return sets;
  for (const nb::handle each : given) {
    if (!nb::isinstance<nb::dict>(each))
      refuse("a set of sets is not a dict; give name, sources, subset, repeat, weight");
    Arguments arguments("sets: ", nb::borrow<nb::dict>(each));
    DataSource set;
    set.format = format;
    arguments.read("name", set.name, "a str");
    set.sources = paths(arguments, "sources");
    set.number_like = paths(arguments, "number_like");
    set.subset = read_subset(arguments.find("subset"), held);
    arguments.read("repeat", set.repeat, "a whole number of at least 1");
    arguments.read("weight", set.weight, "a number of at least 0");
    arguments.finish();
    sets.push_back(std::move(set));
  }
  return sets;
}

std::optional<SharedCache> read_shared_cache(const nb::object& given) {
  if (!given.is_valid()) return std::nullopt;
  if (!nb::isinstance<nb::dict>(given))
    refuse("shared_cache is not a dict; give limit, and perhaps name and folder");
  Arguments arguments("shared_cache: ", nb::borrow<nb::dict>(given));
  SharedCache cache;
  arguments.read("limit", cache.limit_bytes, "a number of bytes");
  arguments.read("name", cache.name, "a str");
  if (std::string folder = path(arguments, "folder"); !folder.empty()) cache.folder = folder;
  arguments.finish();
  return cache;
}

RankCheck check_through(Held all_gather) {
  RankCheck check;
  check.all_gather = [call = std::move(all_gather)](const std::string& text) {
    const Locked lock;
    std::vector<std::string> texts;
    if (!nb::try_cast((*call)(nb::str(text.c_str(), text.size())), texts)) {
      refuse(
          "all_gather gave something else than a list of str; return every rank's text, by rank");
    }
    return texts;
  };
  return check;
}

}  // namespace

void check_signals() {
  const Locked lock;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

LoaderOptions loader_options_of(const nb::kwargs& given, std::vector<Held>& held) {
  Arguments arguments("", nb::borrow<nb::dict>(given));
  LoaderOptions options;
  options.sources = paths(arguments, "sources");
  options.number_like = paths(arguments, "number_like");
  options.format = read_format(arguments);
  options.subset = read_subset(arguments.find("subset"), held);
  arguments.read("repeat", options.repeat, "a whole number of at least 1");
  options.sets = read_sets(arguments.find("sets"), options.format, held);
  arguments.read("epoch_samples", options.epoch_samples, kCount);
  if (const nb::object steps = arguments.find("steps"); steps.is_valid()) {
    if (!nb::isinstance<nb::list>(steps)) arguments.wrong("steps", steps, "a list of dicts");
    options.pipeline = pipeline_of(nb::borrow<nb::list>(steps));
  }
  arguments.read("fields", options.fields, kTexts);
  arguments.read("batch_size", options.batch_size, "a whole number of at least 1");
  arguments.read_name("shuffle", options.shuffle, pipeline::kShuffleNames);
  arguments.read("shuffle_chunk", options.shuffle_chunk, kCount);
  arguments.read("shuffle_window", options.shuffle_window, kCount);
  arguments.read("seed", options.seed, "a whole number from 0 to 18446744073709551615");
  arguments.read_name("last_batch", options.last_batch, pipeline::kLastBatchNames);
  arguments.read("rank", options.rank, kCount);
  arguments.read("world_size", options.world_size, kCount);
  if (nb::object gather = arguments.find("all_gather"); gather.is_valid()) {
    held.push_back(hold(std::move(gather)));
    options.rank_check = check_through(held.back());
  }
  arguments.read("num_threads", options.thread_count, kCount);
  arguments.read("prefetch_factor", options.prefetch_factor, "a whole number of at least 1");
  arguments.read("queue_depth", options.queue_depth, "a whole number of at least 1");
  arguments.read("backend", options.backend, "a str");
  arguments.read_name("page_cache", options.page_cache, kPageCaches);
  options.shared_cache = read_shared_cache(arguments.find("shared_cache"));
  arguments.read("metrics", options.metrics, "a str");
  arguments.read("live_socket", options.has_live_socket, "True or False");
  arguments.read("sqpoll", options.sqpoll, "True or False");
  arguments.read("iopoll", options.iopoll, "True or False");
  arguments.read_name("io_fallback", options.fallback, kFallbacks);
  arguments.read_name("crop_index", options.crop_index, pipeline::kCropIndexNames);
  arguments.read_name("on_error", options.on_error, pipeline::kOnErrorNames);
  arguments.read("error_budget", options.error_budget, kCount);
  arguments.read("error_budget_share", options.error_budget_share, "a number in [0, 1]");
  options.quarantine_file = path(arguments, "quarantine_file");
  arguments.read("memory_limit", options.memory_limit_bytes, "a number of bytes");
  arguments.read("device", options.device, "a str");
  arguments.read("decode_device", options.decode_device, "a str");
  arguments.read("hardware_share", options.hardware_share, "a number in [0, 1]");
  arguments.read_name("jpeg_engine", options.jpeg_engine, pipeline::kJpegEngineNames);
  options.cuda_plugin = paths(arguments, "cuda_plugin");
  options.cuda_libraries = paths(arguments, "cuda_libraries");
  arguments.read("timeout", options.timeout_seconds, "a number of seconds");
  arguments.read("max_pixels", options.max_pixels, "a whole number of at least 1");
  arguments.finish();
  options.while_waiting = check_signals;
  return options;
}

const char* const kLoaderOptionsDoc =
    "Opens the data set and makes the plan; nothing is read before the first next().\n\n"
    "Keyword arguments only; None is as good as leaving one out: sources, number_like, "
    "image_fields,\n"
    "label_field, label_json_key, label_file, cache_dir, subset, repeat, sets, epoch_samples, "
    "steps,\n"
    "fields, batch_size, shuffle, shuffle_chunk, shuffle_window, seed, last_batch, rank, "
    "world_size,\n"
    "all_gather, num_threads, prefetch_factor, queue_depth, backend, page_cache, shared_cache, "
    "sqpoll,\n"
    "iopoll, io_fallback, on_error, error_budget, error_budget_share, quarantine_file, "
    "memory_limit\n"
    "(bytes), device, decode_device, hardware_share, jpeg_engine, cuda_plugin, cuda_libraries,\n"
    "timeout (seconds), max_pixels, crop_index, metrics, live_socket. feedrace.ImageLoader "
    "explains them.";

}  // namespace feedrace::python
