// SPDX-License-Identifier: Apache-2.0
#include "feedrace/verify.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/class_list.h"
#include "feedrace/formats/folder_walk.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/output_check.h"
#include "feedrace/formats/pending_file.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/shard_sources.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/pack/file_unit.h"
#include "feedrace/pack/manifest.h"
#include "feedrace/pack/packed_folder.h"
#include "feedrace/pack/shard_unit.h"
#include "feedrace/pack/verification.h"
#include "feedrace/pack/verify_keys.h"
#include "feedrace/pack/verify_run.h"

namespace feedrace::pack {
namespace {

constexpr const char* kNotThere = "shards of the manifest that are not there";
constexpr std::size_t kFieldsNamed = 5;

std::uint64_t size_of_file(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

bool is_folder(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// The folder whose manifest counts: that which is the only source.
std::optional<std::string> folder_with_manifest(const std::vector<std::string>& sources) {
  struct stat status{};
  if (sources.size() != 1) return std::nullopt;
  const std::string file = sources[0] + "/" + kManifestFile;
  if (stat(file.c_str(), &status) != 0) return std::nullopt;
  return sources[0];
}

/// The list of bad samples may take the place of nothing that is verified. `set` may be null.
void check_list(const std::vector<std::string>& sources, const VerifyOptions& options,
                const formats::Dataset* set) {
  formats::check_output("bad_file", options.bad_file, {sources, {options.format.label_file}, set},
                        formats::is_bad_list);
}

/// One data set on its way through.
class Verification {
 public:
  Verification(const std::vector<std::string>& sources, const VerifyOptions& options)
      : sources_(sources),
        options_(options),
        thread_count_(options.thread_count > 0 ? options.thread_count : usable_cores()),
        gathering_(options) {}

  VerifyReport run() {
    const auto start = std::chrono::steady_clock::now();
    const std::optional<std::string> packed = folder_with_manifest(sources_);
    if (packed || formats::look_like_shards(sources_)) {
      run_shards(packed);
    } else {
      run_files();
    }
    if (report_.sample_count == 0) {
      gathering_.add(
          {"structure", true, "a data set without samples", 1, {printable(sources_[0])}});
    }
    report_.bad_sample_count = gathering_.bad_count();
    report_.findings = gathering_.findings();
    report_.thread_count = thread_count_;
    gathering_.publish();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    report_.seconds = took.count();
    return std::move(report_);
  }

 private:
  void note(const char* check, std::string what, std::string example, std::uint64_t count = 1) {
    gathering_.add({check, false, std::move(what), count, {std::move(example)}});
  }

  // Shards.

  void run_shards(const std::optional<std::string>& packed) {
    report_.kind = "webdataset shards";
    ShardSources shards;
    formats::LabelMap by_key;
    shards.labels = {options_.format.label_field, options_.format.label_json_key, nullptr};
    if (!options_.format.label_file.empty()) {
      by_key = formats::read_label_file(options_.format.label_file);
      shards.labels.by_key = &by_key;
    }
    find_shards(packed, shards);
    if (!shards.paths.empty()) look_at_stored_index(shards);

    VerifyPlan plan;
    for (const std::string& path : shards.paths) {
      const std::uint64_t size = size_of_file(path);
      report_.shard_bytes += size;
      plan.unit_weights.push_back(static_cast<double>(size));
    }
    report_.shard_count = shards.paths.size();
    plan.open = [&](std::size_t unit, VerifyThread& thread) {
      return open_shard_unit(shards, unit, options_, thread);
    };
    const VerifyTotals totals = go(std::move(plan));
    if (totals.labelled_count > 0) {
      list_unlabelled(shards, options_, gathering_);
    } else if (totals.picture_count > 0 && !options_.format.label_field.empty()) {
      note("label", "a set without labels: each is -1", printable(sources_[0]));
    }
    find_twins(shards, options_, thread_count_, gathering_);
    note_missing_pictures(totals);
    note_uneven_fields(totals);
    take_classes(totals, class_names(shards.paths));
  }

  /// Of the numbers in cls fields; labels from elsewhere have other numbers.
  std::vector<std::string> class_names(const std::vector<std::string>& shards) {
    const std::string& field = options_.format.label_field;
    if (!options_.format.label_file.empty() || (field != "auto" && field != "cls")) return {};
    std::vector<std::string> warnings;
    std::vector<std::string> names = formats::read_class_list(shards, warnings);
    for (std::string& warning : warnings) note("class", "about the class list", std::move(warning));
    return names;
  }

  /// Shards on disk, and those that the manifest names.
  void find_shards(const std::optional<std::string>& packed, ShardSources& shards) {
    std::optional<Manifest> manifest;
    if (packed) manifest = read_promises(*packed);
    look_beside_shards(packed, manifest ? &*manifest : nullptr);
    try {
      formats::ShardSources found = formats::find_shards(sources_);
      shards.paths = std::move(found.paths);
      for (std::string& warning : found.warnings) {
        note("structure", "about the sources", std::move(warning));
      }
    } catch (const Error& error) {
      // Where a manifest says which there should be, that none is there is a finding.
      if (!manifest || error.code() != ErrorCode::kNotFound) throw;
    }
    shards.promised.resize(shards.paths.size());
    if (manifest) compare_names(*manifest, shards);
  }

  /// A manifest that can't be read has been told; without one each folder may be half packed.
  void look_beside_shards(const std::optional<std::string>& packed, const Manifest* manifest) {
    if (packed && manifest == nullptr) return;
    for (const std::string& source : sources_) {
      if (!is_folder(source)) continue;
      for (const Found& found : look_at_packed_folder(source, manifest)) gathering_.add(found);
    }
  }

  std::optional<Manifest> read_promises(const std::string& folder) {
    Result<Manifest> manifest = read_manifest(folder);
    if (!manifest) {
      gathering_.add(
          {"manifest", true, "a manifest that can't be read", 1, {manifest.error().message}});
      return std::nullopt;
    }
    report_.has_manifest = true;
    for (const Manifest::LeftOut& one : manifest->left_out) {
      note("manifest", "samples of the source that were left out when it was packed",
           fmt::format("{}: {}", printable(one.key), printable(one.reason)));
    }
    return *std::move(manifest);
  }

  void compare_names(const Manifest& manifest, ShardSources& shards) {
    std::unordered_map<std::string, std::size_t> by_name;
    for (std::size_t i = 0; i < shards.paths.size(); ++i) {
      by_name.emplace(formats::base_name(shards.paths[i]), i);
    }
    for (const Manifest::Shard& promised : manifest.shards) {
      const auto found = by_name.find(promised.name);
      if (found == by_name.end()) {
        gathering_.add({"manifest",
                        true,
                        kNotThere,
                        1,
                        {fmt::format("{}: {}, {} bytes", printable(promised.name),
                                     formats::counted(promised.sample_count, "sample"),
                                     with_commas(promised.size_bytes))}});
      } else {
        shards.promised[found->second] = promised;
      }
    }
    for (std::size_t i = 0; i < shards.paths.size(); ++i) {
      if (shards.promised[i]) continue;
      gathering_.add({"manifest",
                      true,
                      "shards that the manifest does not know",
                      1,
                      {printable(formats::base_name(shards.paths[i]))}});
    }
  }

  void look_at_stored_index(ShardSources& shards) {
    using Kind = formats::StoredIndexState::Kind;
    formats::StoredIndexState state = formats::look_at_index(sources_, options_.format);
    switch (state.kind) {
      case Kind::kNone:
        report_.index = "none";
        break;
      case Kind::kFresh:
        report_.index = "fresh";
        break;
      case Kind::kStale:
        report_.index = "stale";
        note("index", "a stored index that is stale, and made anew when it is used", state.reason);
        break;
      case Kind::kUnreadable:
        report_.index = "unreadable";
        note("index", "a stored index that can't be used, and is made anew", state.reason);
        break;
    }
    shards.index = std::move(state.index);
  }

  void note_missing_pictures(const VerifyTotals& totals) {
    const std::uint64_t without = totals.sample_count - totals.picture_count;
    if (without == 0) return;
    note("field", "samples without a picture, which no loader delivers",
         fmt::format("image fields are {}; {} of {} samples have none",
                     formats::listed(options_.format.image_fields), with_commas(without),
                     with_commas(totals.sample_count)),
         without);
  }

  /// Fields that some samples have and others lack.
  void note_uneven_fields(const VerifyTotals& totals) {
    std::vector<std::string> uneven;
    for (const auto& [field, count] : totals.fields) {
      if (count >= totals.sample_count) continue;
      uneven.push_back(fmt::format("{}: {} of {} samples have it; --require {} lists the others",
                                   printable(field), with_commas(count),
                                   with_commas(totals.sample_count), shell_word(field)));
    }
    if (uneven.empty()) return;
    const std::size_t count = uneven.size();
    if (count > kFieldsNamed) uneven.resize(kFieldsNamed);
    gathering_.add({"field", false, "fields that not all samples have", count, std::move(uneven)});
  }

  // Folders and lists.

  void run_files() {
    if (!options_.required_fields.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: samples that are files have no fields to require; leave "
                              "required fields out",
                              printable(sources_[0])));
    }
    const auto set = formats::open_dataset(sources_, options_.format);
    check_list(sources_, options_, set.get());
    report_.kind = set->kind();
    for (const std::string& warning : set->warnings()) {
      // What can't be looked at can't be called good.
      const bool is_unseen = warning.find(formats::kUnreadableFolders) != std::string::npos;
      const char* what = is_unseen ? "folders that can't be read" : "about the data set";
      gathering_.add({"structure", is_unseen, what, 1, {warning}});
    }
    VerifyPlan plan;
    for (std::uint64_t first = 0; first < set->size(); first += kFilesAUnit) {
      plan.unit_weights.push_back(static_cast<double>(std::min(kFilesAUnit, set->size() - first)));
    }
    plan.open = [&](std::size_t unit, VerifyThread& thread) {
      return open_file_unit(*set, unit, options_, thread);
    };
    const VerifyTotals totals = go(std::move(plan));
    find_twins(*set, gathering_);
    take_classes(totals, set->classes());
  }

  // Both.

  VerifyTotals go(VerifyPlan plan) {
    plan.take = [this](std::size_t unit, OpenedUnit& opened, std::vector<PieceFindings>& pieces) {
      gathering_.take(unit, opened, pieces);
    };
    decode::DecodeLimits limits;
    limits.max_pixels = options_.max_pixels;
    VerifyTotals totals = VerifyRun(std::move(plan), thread_count_, limits).run(options_.progress);
    report_.sample_count = totals.sample_count;
    report_.picture_count = totals.picture_count;
    report_.has_decoded = options_.decodes;
    report_.decoded_count = totals.decoded_count;
    report_.flagged_count = totals.flagged_count;
    report_.checksum_count = totals.checksum_count;
    report_.fields = totals.fields;
    report_.bytes = totals.bytes.spread();
    report_.pixels = totals.pixels.spread();
    return totals;
  }

  void take_classes(const VerifyTotals& totals, const std::vector<std::string>& names) {
    if (totals.classes.empty() && names.empty()) return;
    report_.classes = totals.classes.classes(names.size());
    if (report_.classes->empty_count == 0) return;
    std::vector<std::string> labels;
    for (const std::int64_t label : report_.classes->first_empty) {
      const bool is_named = static_cast<std::uint64_t>(label) < names.size();
      labels.push_back(is_named ? fmt::format("{} ({})", label,
                                              printable(names[static_cast<std::size_t>(label)]))
                                : fmt::format("{}", label));
    }
    const bool is_all = labels.size() == report_.classes->empty_count;
    note("class", "classes without samples",
         fmt::format("{}{}", fmt::join(labels, ", "), is_all ? "" : ", ..."),
         report_.classes->empty_count);
  }

  const std::vector<std::string>& sources_;
  const VerifyOptions& options_;
  const std::size_t thread_count_;
  Gathering gathering_;
  VerifyReport report_;
};

}  // namespace

VerifyReport verify(const std::vector<std::string>& sources, const VerifyOptions& options) {
  if (sources.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no source given; name a folder, shards or a list");
  }
  check_list(sources, options, nullptr);
  if (!options.bad_file.empty()) {
    // Before hours of reading.
    const Result<void> open = formats::check_writable(options.bad_file);
    if (!open) throw Error(open.error().code, "list of bad samples: " + open.error().message);
  }
  return Verification(sources, options).run();
}

}  // namespace feedrace::pack
