// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/webdataset.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/class_list.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/folder_walk.h"
#include "feedrace/formats/index_place.h"
#include "feedrace/formats/index_writer.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/packed_set.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/shard_labels.h"
#include "feedrace/formats/shard_sources.h"

namespace feedrace::formats {
namespace {

/// Shards that a message names.
constexpr std::size_t kNamesShown = 3;

/// As a command takes them.
std::string words_of(const std::vector<std::string>& sources) {
  std::vector<std::string> words;
  words.reserve(sources.size());
  for (const std::string& source : sources) words.push_back(shell_word(source));
  return fmt::format("{}", fmt::join(words, " "));
}

/// The options that an index depends on, as text; equal texts give equal indexes.
std::string options_text(const OpenOptions& options) {
  nlohmann::json fields = nlohmann::json::array();
  for (const std::string& field : options.image_fields) fields.push_back(printable(field));
  nlohmann::json text = {{"images", std::move(fields)},
                         {"label", printable(options.label_field)},
                         {"json_key", printable(options.label_json_key)}};
  if (!options.label_file.empty()) {
    const Result<std::string> content = read_whole_file(options.label_file);
    if (!content) raise(content.error());
    text["label_file"] = hash_text(*content);
  }
  return text.dump();
}

struct StoredIndex {
  std::optional<ShardIndex> index;  ///< Nothing where there is none that can be used at all.
  std::vector<std::size_t> known;   ///< For each shard its number in the index, or `kChanged`.
  std::size_t changed_count = 0;    ///< Shards that are new, changed or gone.
  std::string example;              ///< One of them.
  bool same_order = true;
  std::string refusal;     ///< Why one that is there can't be used, such as its version.
  bool has_crops = false;  ///< What is there, usable or not, has crop indexes.

  static constexpr std::size_t kChanged = ~std::size_t{0};
  bool is_fresh() const noexcept { return index && changed_count == 0 && same_order; }
};

/// Opens, compares, builds and stores the index of one set of shards.
class IndexKeeper {
 public:
  /// `read` may be empty: headers are read then.
  IndexKeeper(const std::vector<std::string>& sources, std::vector<std::string> paths,
              const OpenOptions& options, ReadShard read = {})
      : options_(options),
        options_text_(options_text(options)),
        paths_(std::move(paths)),
        read_(std::move(read)) {
    source_ = words_of(sources);
    const bool is_default = options_text_ == options_text(OpenOptions{});
    name_ = index_name(sources, is_default ? "" : options_text_);
    folder_ = folder_of(paths_[0]);
    std::error_code error;
    const auto absolute = std::filesystem::absolute(folder_, error);
    cached_name_ = name_.substr(0, name_.rfind('.')) + "-" +
                   hash_text(error ? folder_ : absolute.lexically_normal().native()) + ".frindex";
  }

  StoredIndexState state() const {
    using Kind = StoredIndexState::Kind;
    StoredIndexState state;
    std::vector<std::string> places = {folder_ + "/" + name_};
    for (const std::string& cache : cache_candidates(options_.cache_dir)) {
      if (is_own_folder(cache)) places.push_back(cache + "/" + cached_name_);
    }
    for (const std::string& path : places) {
      StoredIndex stored = look(path);
      if (stored.is_fresh()) return {Kind::kFresh, path, "", std::move(stored.index)};
      if (state.kind != Kind::kNone) continue;
      if (!stored.refusal.empty()) {
        state = {Kind::kUnreadable, "", stored.refusal, std::nullopt};
      } else if (stored.index) {
        state = {Kind::kStale, "", describe_change(stored), std::nullopt};
      }
    }
    return state;
  }

  struct Opened {
    ShardIndex index;
    std::string path;  ///< Empty for one in memory.
  };

  Opened open(std::vector<std::string>& notices) const {
    if (options_.store_index == StoreIndex::kMust) tidy_up();
    StoredIndex stored;
    // With --rebuild nothing stored is used, but what it had may get lost.
    bool had_crops = options_.rebuild_index && has_stored_crops();
    if (!options_.rebuild_index) {
      const std::string path = folder_ + "/" + name_;
      stored = look(path);
      had_crops = stored.has_crops;
      if (is_enough(stored)) return {*std::move(stored.index), path};
      for (const std::string& cache : cache_candidates(options_.cache_dir)) {
        if (!is_own_folder(cache)) continue;
        const std::string cached_path = cache + "/" + cached_name_;
        StoredIndex cached = look(cached_path);
        had_crops = had_crops || cached.has_crops;
        if (is_enough(cached)) return {*std::move(cached.index), cached_path};
        if (!stored.index && (cached.index || stored.refusal.empty())) stored = std::move(cached);
      }
    }
    if (!stored.refusal.empty() && options_.store_index != StoreIndex::kNever) {
      notices.push_back(fmt::format("{}: index made anew: {}", printable(folder_), stored.refusal));
    }
    const bool has_changed = stored.changed_count > 0 || !stored.same_order;
    if (stored.index && has_changed && options_.store_index != StoreIndex::kNever) {
      notices.push_back(
          fmt::format("{}: index refreshed: {}", printable(folder_), describe_change(stored)));
    }
    Opened opened = build(stored, notices);
    // Where some shards still have theirs, the set itself says how many lack them.
    const bool is_lost = had_crops && !opened.index.meta().has_crop_indexes();
    if (is_lost && options_.store_index != StoreIndex::kNever) {
      notices.push_back(fmt::format(
          "{}: {} have no crop index any more, as the index was made anew; make it with "
          "feedrace index {} --crop-index",
          printable(folder_), counted(paths_.size(), "shard"), source_));
    }
    return opened;
  }

 private:
  std::string describe_change(const StoredIndex& stored) const {
    if (stored.changed_count == 0) return "the shards lie in another order";
    return fmt::format("{} of {} shards are new, changed or gone, such as {}", stored.changed_count,
                       std::max(paths_.size(), stored.index->meta().shards.size()),
                       printable(stored.example));
  }

  /// Removes what killed processes left behind.
  void tidy_up() const {
    remove_stale_builds(folder_, name_);
    for (const std::string& cache : cache_candidates(options_.cache_dir)) {
      if (is_own_folder(cache)) remove_stale_builds(cache, cached_name_);
    }
  }

  /// Up to date, with all that is wanted of it.
  bool is_enough(const StoredIndex& stored) const {
    if (!stored.is_fresh()) return false;
    const std::vector<IndexMeta::Shard>& shards = stored.index->meta().shards;
    return !options_.make_crop_index ||
           std::all_of(shards.begin(), shards.end(),
                       [](const auto& shard) { return shard.crop_index_count.has_value(); });
  }

  bool has_stored_crops() const {
    std::vector<std::string> paths = {folder_ + "/" + name_};
    for (const std::string& cache : cache_candidates(options_.cache_dir)) {
      if (is_own_folder(cache)) paths.push_back(cache + "/" + cached_name_);
    }
    return std::any_of(paths.begin(), paths.end(), [this](const std::string& path) {
      const StoredIndex stored = look(path);
      return stored.index && stored.index->meta().has_crop_indexes();
    });
  }

  std::uint64_t shard_bytes() const {
    std::uint64_t sum = 0;
    for (const std::string& path : paths_) {
      struct stat status{};
      if (stat(path.c_str(), &status) == 0) sum += static_cast<std::uint64_t>(status.st_size);
    }
    return sum;
  }

  /// The stored index at `path` and which of the shards it knows.
  StoredIndex look(const std::string& path) const {
    constexpr int kTries = 3;  // Somebody may put a new one in its place while files are opened.
    StoredIndex stored;
    for (int i = 0; i < kTries && !stored.index; ++i) {
      const auto files = FolderFiles::open_folder(path);
      if (!files) {
        if (files.error().code != ErrorCode::kNotFound) stored.refusal = files.error().message;
        return stored;
      }
      Result<ShardIndex> index = ShardIndex::open(**files);
      stored.refusal = index ? "" : index.error().message;
      stored.has_crops = index ? index->meta().has_crop_indexes() : has_crop_files(**files);
      if (index) stored.index = *std::move(index);
    }
    if (stored.index && stored.index->meta().options != options_text_) stored.index.reset();
    if (stored.index) compare(stored);
    return stored;
  }

  /// Of an index that can't be read. An index without crop indexes has none of these files.
  static bool has_crop_files(const FolderFiles& files) {
    return files.open(CropColumns::kBeginFile) || files.open(CropColumns::kBytesFile);
  }

  void compare(StoredIndex& stored) const {
    const std::vector<IndexMeta::Shard>& shards = stored.index->meta().shards;
    std::unordered_multimap<std::string, std::size_t> by_name;
    for (std::size_t i = 0; i < shards.size(); ++i) by_name.emplace(shards[i].name, i);
    std::vector<bool> used(shards.size());
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      const std::string name = base_name(paths_[i]);
      // Where names repeat in several folders the place in order decides; a new one shifts them.
      std::size_t at = StoredIndex::kChanged;
      if (i < shards.size() && shards[i].name == name) {
        at = i;
      } else if (by_name.count(name) == 1) {
        at = by_name.find(name)->second;
      }
      if (at != StoredIndex::kChanged) used[at] = true;
      if (at == StoredIndex::kChanged || !is_unchanged(paths_[i], shards[at].identity)) {
        at = StoredIndex::kChanged;
        ++stored.changed_count;
        if (stored.example.empty()) stored.example = name;
      }
      stored.known.push_back(at);
      stored.same_order = stored.same_order && at == i;
    }
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (used[i]) continue;
      ++stored.changed_count;
      if (stored.example.empty()) stored.example = shards[i].name;
    }
  }

  /// By size and time. A shard with another time is read again even if head and tail are the same:
  /// a label in its middle may have been put right.
  static bool is_unchanged(const std::string& path, const ShardIdentity& known) {
    struct stat status{};
    return stat(path.c_str(), &status) == 0 &&
           static_cast<std::uint64_t>(status.st_size) == known.size_bytes &&
           mtime_ns(status) == known.mtime_ns;
  }

  Opened build(const StoredIndex& stored, std::vector<std::string>& notices) const {
    IndexBuild plan;
    plan.paths = paths_;
    plan.options = options_text_;
    plan.image_fields = options_.image_fields;
    plan.labels = {options_.label_field, options_.label_json_key, nullptr};
    plan.thread_count = options_.thread_count != 0 ? options_.thread_count : usable_cores();
    std::optional<CropCounter> counter;
    if (options_.make_crop_index) {
      counter.emplace(options_.crop_index_progress, shard_bytes());
      plan.crop_counter = &*counter;
    }
    LabelMap labels;
    if (!options_.label_file.empty()) {
      labels = read_label_file(options_.label_file);
      plan.labels.by_key = &labels;
    }
    if (read_) {
      plan.known = [this](std::size_t i) -> std::optional<ShardScan> { return read_(paths_[i]); };
    } else if (stored.index) {
      plan.known = [&stored](std::size_t i) -> std::optional<ShardScan> {
        const std::size_t at = stored.known[i];
        if (at == StoredIndex::kChanged) return std::nullopt;
        Result<ShardScan> scan = stored.index->extract(at);
        return scan ? std::optional(*std::move(scan)) : std::nullopt;
      };
    }
    if (options_.store_index == StoreIndex::kNever) return {build_in_memory(plan), ""};
    std::string reasons;
    if (auto index = build_in(plan, folder_, name_, reasons)) {
      return {*std::move(index), folder_ + "/" + name_};
    }
    if (const auto cache = make_cache_folder(options_.cache_dir)) {
      if (auto index = build_in(plan, *cache, cached_name_, reasons)) {
        return {*std::move(index), *cache + "/" + cached_name_};
      }
    } else {
      reasons += "; " + cache.error().message;
    }
    if (options_.store_index == StoreIndex::kMust) {
      throw Error(ErrorCode::kIo,
                  fmt::format("{}: the index can't be stored: {}; free space, make the folder "
                              "writable, or set cache_dir",
                              printable(folder_), reasons));
    }
    notices.push_back(
        fmt::format("index kept in memory only, so that each start makes it anew: {}; "
                    "make the folder writable, or set cache_dir",
                    reasons));
    return {build_in_memory(plan), ""};
  }

  /// Builds and stores the index; nothing, with the reason, where it cannot be written. Throws
  /// Error for what is wrong with the shards.
  static std::optional<ShardIndex> build_in(const IndexBuild& plan, const std::string& folder,
                                            const std::string& name, std::string& reasons) {
    const auto give_up = [&](const Failure& failure) {
      reasons += (reasons.empty() ? "" : "; ") + failure.message;
      return std::nullopt;
    };
    const auto pending = PendingIndex::create(folder, name);
    if (!pending) return give_up(pending.error());
    bool write_failed = false;
    const Result<void> built = build_index(plan, (*pending)->files(), write_failed);
    if (!built && write_failed) return give_up(built.error());
    if (!built) raise(built.error());
    Result<ShardIndex> index = ShardIndex::open((*pending)->files());
    if (!index) return give_up(index.error());
    if (const Result<void> published = (*pending)->publish(); !published) {
      return give_up(published.error());
    }
    return *std::move(index);
  }

  static ShardIndex build_in_memory(const IndexBuild& plan) {
    MemoryFiles files;
    bool write_failed = false;
    if (const Result<void> built = build_index(plan, files, write_failed); !built) {
      raise(built.error());
    }
    Result<ShardIndex> index = ShardIndex::open(files);
    if (!index) raise(index.error());
    return *std::move(index);
  }

  const OpenOptions& options_;
  const std::string options_text_;
  const std::vector<std::string> paths_;
  const ReadShard read_;
  std::string name_;
  std::string cached_name_;
  std::string folder_;
  std::string source_;  // For messages.
};

/// For a folder that is read as shards, as there are tars in it, but that may be meant as one of
/// class folders: what to do. Empty when no folder in it has pictures.
std::string stray_shard_advice(const std::vector<std::string>& sources, const Endings& endings) {
  struct stat status{};
  if (sources.size() != 1 || stat(sources[0].c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return "";
  }
  for (const std::string& name : list_root(sources[0], endings).classes) {
    if (list_class(sources[0], name, endings).paths.size() == 0) continue;
    std::vector<std::string> shards = find_shards(sources).paths;
    for (std::string& shard : shards) shard = base_name(shard);
    const std::string tars = listed(shards, kNamesShown);
    return fmt::format(
        "folders with pictures, such as {}, are not read because {} lies beside "
        "them; move {} away to read the folders as classes",
        printable(name), tars, tars);
  }
  return "";
}

/// Says why a set gives no sample.
[[noreturn]] void fail_without_images(const ShardSet& set, const std::vector<std::string>& sources,
                                      const OpenOptions& options) {
  std::string advice = stray_shard_advice(sources, options.file_endings);
  std::string found;
  if (set.entry_count() == 0) {
    found = fmt::format("no samples in {}{}", counted(set.shards().size(), "shard"),
                        set.warnings().empty() ? "" : " (" + set.warnings()[0] + ")");
    if (advice.empty()) advice = "check what packed them";
  } else {
    found = fmt::format("none of {} has an image field ({}); fields found: {}",
                        counted(set.entry_count(), "sample"), listed(options.image_fields),
                        listed(set.field_names()));
    if (advice.empty()) {
      advice = "name the right one in image_fields (a key ends at the first dot of the name)";
    }
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("{}: {}; {}", listed(sources, kNamesShown), found, advice));
}

void check_given(const std::vector<std::string>& sources) {
  if (sources.empty()) throw Error(ErrorCode::kInvalidArgument, "no source given; name the shards");
}

std::unique_ptr<ShardSet> open_found(const std::vector<std::string>& sources, ShardSources found,
                                     const OpenOptions& options, const ReadShard& read) {
  std::vector<std::string> notices = std::move(found.warnings);
  auto [index, path] = IndexKeeper(sources, found.paths, options, read).open(notices);
  std::vector<std::string> classes = read_class_list(found.paths, notices);
  return std::make_unique<ShardSet>(std::move(found.paths), std::move(index), options,
                                    std::move(notices), std::move(path), words_of(sources),
                                    std::move(classes));
}

/// Opens shards; where they cannot be read says as well when they are likely not meant.
std::unique_ptr<ShardSet> open_or_advise(const std::vector<std::string>& sources,
                                         const OpenOptions& options) {
  try {
    return open_shards(sources, options);
  } catch (const Error& error) {
    const bool is_unreadable =
        error.code() == ErrorCode::kCorruptData || error.code() == ErrorCode::kUnsupported;
    const std::string advice =
        is_unreadable ? stray_shard_advice(sources, options.file_endings) : "";
    if (advice.empty()) throw;
    throw Error(error.code(), fmt::format("{}; {}", error.what(), advice));
  }
}

}  // namespace

bool WebdatasetFormat::accepts(const std::vector<std::string>& sources) const {
  return look_like_shards(sources);
}

std::unique_ptr<ShardSet> open_shards(const std::vector<std::string>& sources,
                                      const OpenOptions& options) {
  check_given(sources);
  ShardSources found = find_shards(sources);
  note_incomplete_sets(sources, found.paths, found.warnings);
  return open_found(sources, std::move(found), options, {});
}

std::unique_ptr<ShardSet> open_shards(const std::vector<std::string>& sources,
                                      const OpenOptions& options, const ReadShard& read) {
  check_given(sources);
  return open_found(sources, find_shards(sources), options, read);
}

StoredIndexState look_at_index(const std::vector<std::string>& sources,
                               const OpenOptions& options) {
  check_given(sources);
  return IndexKeeper(sources, find_shards(sources).paths, options).state();
}

std::unique_ptr<Dataset> WebdatasetFormat::open(const std::vector<std::string>& sources,
                                                const OpenOptions& options) const {
  std::unique_ptr<ShardSet> set = open_or_advise(sources, options);
  if (set->size() == 0) fail_without_images(*set, sources, options);
  require_named_labels(*set, options);
  return set;
}

}  // namespace feedrace::formats
