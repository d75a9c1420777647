// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/open_sets.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/joined_dataset.h"
#include "feedrace/formats/renumbered_dataset.h"
#include "feedrace/pipeline/subset.h"

namespace feedrace::pipeline {
namespace {

constexpr std::uint64_t kMaxRepeat = 1'000'000;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

std::string name_of(const DataSource& source) {
  if (!source.name.empty()) return source.name;
  return source.sources.empty() ? "data" : source.sources.front();
}

/// Arrays have other names than pictures, unless the fields are named.
void name_raw(const RawSamples& raw, formats::OpenOptions& format) {
  if (format.image_fields == formats::OpenOptions().image_fields) {
    format.image_fields = {raw.form == RawSamples::Form::kNpy ? "npy" : "bin"};
  }
  format.file_endings.clear();
  for (const std::string& field : format.image_fields) format.file_endings.push_back("." + field);
}

/// The sets that the options name, one or several.
std::vector<DataSource> named_sources(const LoaderOptions& options) {
  if (options.sets.empty()) {
    return {{"", options.sources, options.format, options.dataset, options.number_like,
             options.subset, options.repeat, 0}};
  }
  const bool has_single = !options.sources.empty() || options.dataset;
  if (has_single)
    refuse("sources and sets are both given; name each data set in sets, or only one");
  std::set<std::string> names;
  for (const DataSource& source : options.sets) {
    if (names.insert(name_of(source)).second) continue;
    refuse(fmt::format("two data sets are named {}; give each a name of its own",
                       printable(name_of(source))));
  }
  return options.sets;
}

std::vector<DataSource> sources_of(const LoaderOptions& options) {
  std::vector<DataSource> sources = named_sources(options);
  if (!options.pipeline.raw) return sources;
  for (DataSource& source : sources) name_raw(*options.pipeline.raw, source.format);
  return sources;
}

std::shared_ptr<const formats::Dataset> open_one(const DataSource& source) {
  std::shared_ptr<const formats::Dataset> dataset = source.dataset;
  if (!dataset) dataset = formats::open_dataset(source.sources, source.format);
  if (source.number_like.empty()) return dataset;
  const auto reference = formats::open_dataset(source.number_like, source.format);
  return formats::number_like(std::move(dataset), *reference);
}

order::SetState state_of(const formats::Dataset& dataset, const DataSource& source,
                         const ChosenSubset& chosen) {
  order::SetState state;
  state.name = name_of(source);
  state.sample_count = dataset.size();
  state.selected_count = chosen.selection.size();
  state.fingerprint = dataset.fingerprint();
  state.key_fingerprint = dataset.key_fingerprint();
  state.key_set_fingerprint = dataset.key_set_fingerprint();
  state.subset = chosen.text;
  state.repeat = source.repeat;
  state.weight = source.weight;
  std::vector<std::pair<std::string, std::string>> parts;
  for (formats::Part& part : dataset.parts()) {
    parts.emplace_back(std::move(part.name), std::move(part.digest));
  }
  state.parts = order::state_parts(parts);
  return state;
}

bool is_remote(const std::string& source) { return source.find("://") != std::string::npos; }

bool is_remote(const std::vector<std::string>& sources) {
  return std::any_of(sources.begin(), sources.end(),
                     [](const std::string& source) { return is_remote(source); });
}

}  // namespace

Shuffle default_shuffle(const LoaderOptions& options) {
  if (!options.pipeline.crops_at_random()) return Shuffle::kNone;
  const bool remote = is_remote(options.sources) ||
                      std::any_of(options.sets.begin(), options.sets.end(),
                                  [](const DataSource& set) { return is_remote(set.sources); });
  return remote ? Shuffle::kWindow : Shuffle::kGlobal;
}

void open_once(LoaderOptions& options) {
  if (options.sets.empty()) {
    options.dataset = open_one(sources_of(options).front());
    options.number_like.clear();
  }
  const std::vector<DataSource> sources = sources_of(options);
  for (std::size_t i = 0; i < options.sets.size(); ++i) {
    options.sets[i].dataset = open_one(sources[i]);
    options.sets[i].number_like.clear();
  }
}

OpenedSets open_sets(const LoaderOptions& options) {
  OpenedSets opened;
  std::vector<formats::NamedSet> named;
  std::uint64_t first_sample = 0;
  const std::vector<DataSource> sources = sources_of(options);
  for (const DataSource& source : sources) {
    if (source.repeat == 0 || source.repeat > kMaxRepeat) {
      refuse(fmt::format("repeat is {}; it must be from 1 to {}", source.repeat,
                         with_commas(kMaxRepeat)));
    }
    auto dataset = open_one(source);
    ChosenSubset chosen = choose_subset(*dataset, source.subset);
    opened.states.push_back(state_of(*dataset, source, chosen));
    if (const std::uint64_t repeats = chosen.selection.repeat_count(); repeats > 0) {
      opened.warnings.push_back(fmt::format(
          "the subset of {} repeats samples in {} of its {} entries; they come as often",
          printable(name_of(source)), with_commas(repeats), with_commas(chosen.selection.size())));
    }
    opened.sets.push_back({name_of(source),
                           std::make_shared<const order::Selection>(std::move(chosen.selection)),
                           first_sample, source.repeat, source.weight});
    first_sample += dataset->size();
    named.push_back({name_of(source), std::move(dataset)});
  }
  opened.dataset =
      named.size() == 1 ? std::move(named.front().set) : formats::join(std::move(named));
  if (!options.fields.empty()) {
    opened.spans = std::make_shared<const formats::SampleSpans>(
        std::move(opened.dataset), formats::parse_fields(options.fields));
    opened.dataset = opened.spans;
  }
  return opened;
}

}  // namespace feedrace::pipeline
