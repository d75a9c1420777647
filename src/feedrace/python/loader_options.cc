// SPDX-License-Identifier: Apache-2.0
#include "feedrace/python/loader_options.h"

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
#include "feedrace/python/native_error.h"
#include "feedrace/python/steps.h"

namespace nb = nanobind;

namespace feedrace::python {
namespace {

/// A Python object that threads of the loader may copy and let go of.
std::shared_ptr<nb::object> shared(nb::object value) {
  return {new nb::object(std::move(value)), [](nb::object* held) {
            const nb::gil_scoped_acquire lock;
            delete held;
          }};
}

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

Subset read_subset(const nb::object& given) {
  Subset subset;
  if (!given.is_valid()) return subset;
  if (!nb::isinstance<nb::dict>(given))
    refuse("subset is not a dict; give share, keys, key_pattern, key_filter or indices");
  Arguments arguments("subset: ", nb::borrow<nb::dict>(given));
  arguments.read("keys", subset.keys, kTexts);
  arguments.read("key_pattern", subset.key_pattern, "a str");
  arguments.read("key_filter_name", subset.key_filter_name, "a str");
  if (nb::object filter = arguments.find("key_filter"); filter.is_valid()) {
    subset.key_filter = [call = shared(std::move(filter))](std::string_view key) {
      const nb::gil_scoped_acquire lock;
      return nb::cast<bool>(nb::bool_((*call)(nb::str(key.data(), key.size()))));
    };
  }
  arguments.read("share_salt", subset.share_salt, kCount);
  arguments.read("indices", subset.indices, "a list of whole numbers");
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

std::vector<DataSource> read_sets(const nb::object& given, const formats::OpenOptions& format) {
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
    set.subset = read_subset(arguments.find("subset"));
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

RankCheck check_through(nb::object all_gather) {
  RankCheck check;
  check.all_gather = [call = shared(std::move(all_gather))](const std::string& text) {
    const nb::gil_scoped_acquire lock;
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
  const nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

LoaderOptions loader_options_of(const nb::kwargs& given) {
  Arguments arguments("", nb::borrow<nb::dict>(given));
  LoaderOptions options;
  options.sources = paths(arguments, "sources");
  options.number_like = paths(arguments, "number_like");
  options.format = read_format(arguments);
  options.subset = read_subset(arguments.find("subset"));
  arguments.read("repeat", options.repeat, "a whole number of at least 1");
  options.sets = read_sets(arguments.find("sets"), options.format);
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
    options.rank_check = check_through(std::move(gather));
  }
  arguments.read("num_threads", options.thread_count, kCount);
  arguments.read("prefetch_factor", options.prefetch_factor, "a whole number of at least 1");
  arguments.read("queue_depth", options.queue_depth, "a whole number of at least 1");
  arguments.read("backend", options.backend, "a str");
  arguments.read_name("page_cache", options.page_cache, kPageCaches);
  options.shared_cache = read_shared_cache(arguments.find("shared_cache"));
  arguments.read("sqpoll", options.sqpoll, "True or False");
  arguments.read("iopoll", options.iopoll, "True or False");
  arguments.read_name("io_fallback", options.fallback, kFallbacks);
  arguments.read_name("on_error", options.on_error, pipeline::kOnErrorNames);
  arguments.read("error_budget", options.error_budget, kCount);
  arguments.read("error_budget_share", options.error_budget_share, "a number in [0, 1]");
  options.quarantine_file = path(arguments, "quarantine_file");
  arguments.read("memory_limit", options.memory_limit_bytes, "a number of bytes");
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
    "(bytes), timeout (seconds), max_pixels. feedrace.ImageLoader explains them.";

}  // namespace feedrace::python
