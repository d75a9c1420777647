// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/folder_crops.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/cores.h"
#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/index_place.h"
#include "feedrace/formats/parallel.h"
#include "feedrace/formats/picture_stamps.h"
#include "feedrace/formats/posix_file.h"
#include "feedrace/formats/shard_index.h"

namespace feedrace::formats {
namespace {

constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kMaxMetaBytes = 16384;
/// Pictures whose crop indexes are held in memory at a time.
constexpr std::uint64_t kPieceSamples = 4096;

/// Where the crop indexes of a folder may lie.
struct Places {
  std::string name;  ///< Of the index.
  std::string beside;
  std::string cached_name;
};

Places places_of(const std::string& root) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(root, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "a/" is "a".
  Places places;
  const std::string stem = path.has_filename() ? path.filename().native() : "root";
  places.name = stem + ".crops.frindex";
  places.beside = path.parent_path().native();
  places.cached_name = "crops-" + hash_text(path.native()) + ".frindex";
  return places;
}

std::string meta_text(const Dataset& folder, std::uint64_t count, const CropIndexGaps& gaps) {
  const nlohmann::json meta = {
      {"format", "feedrace crop index"},     {"version", kVersion},   {"samples", folder.size()},
      {"fingerprint", folder.fingerprint()}, {"crop_indexes", count}, {"without_crop_index", gaps}};
  return meta.dump(1) + "\n";
}

/// How many pictures have one, and why others have none. Failure: kCorruptData, of another list of
/// files or no such index.
Result<FolderCrops> read_meta(const IndexFiles& files, const Dataset& folder) {
  const Result<Fd> fd = files.open(kMetaFile);
  if (!fd) return fd.error();
  std::string text(kMaxMetaBytes, '\0');
  const Result<std::size_t> got = read_at(fd->get(), files.path(kMetaFile), 0, text);
  if (!got) return got.error();
  text.resize(*got);
  const Result<nlohmann::json> meta = parse_json(text);
  const auto corrupt = [](std::string what) {
    return Failure{ErrorCode::kCorruptData, std::move(what)};
  };
  if (!meta) return corrupt("its meta.json is damaged");
  try {
    if (meta->at("version").get<std::uint64_t>() != kVersion) return corrupt("of another version");
    const bool is_same = meta->at("samples").get<std::uint64_t>() == folder.size() &&
                         meta->at("fingerprint").get<std::string>() == folder.fingerprint();
    if (!is_same) return corrupt("files came or went since it was made");
    FolderCrops crops;
    crops.count = std::min(meta->at("crop_indexes").get<std::uint64_t>(), folder.size());
    crops.gaps = meta->value("without_crop_index", CropIndexGaps());
    return crops;
  } catch (const nlohmann::json::exception&) {
    return corrupt("its meta.json is damaged");
  }
}

/// Failures: kNotFound where nothing is there; else why what is there can't be used.
Result<FolderCrops> open_once(const std::string& path, const Dataset& folder) {
  const auto files = FolderFiles::open_folder(path);
  if (!files) return files.error();
  // What lacks a file is damaged, not absent.
  const auto damaged = [](Failure failure) {
    if (failure.code == ErrorCode::kNotFound) failure.code = ErrorCode::kCorruptData;
    return failure;
  };
  Result<FolderCrops> crops = read_meta(**files, folder);
  if (!crops) return damaged(crops.error());
  Result<CropColumns> columns = CropColumns::map(**files, folder.size());
  if (!columns) return damaged(columns.error());
  crops->columns = *std::move(columns);
  crops->path = path;
  return crops;
}

Result<FolderCrops> open_stored(const std::string& path, const Dataset& folder) {
  constexpr int kTries = 3;  // Somebody may put a new one in its place while files are opened.
  Result<FolderCrops> stored = open_once(path, folder);
  for (int i = 1; i < kTries && !stored && stored.error().code != ErrorCode::kNotFound; ++i) {
    stored = open_once(path, folder);
  }
  return stored;
}

/// Why crop indexes that are there are not used, and what to do.
std::string describe_refusal(const std::string& path, const Failure& failure,
                             const std::string& root) {
  const std::string anew =
      fmt::format("make it anew with feedrace index {} --crop-index", shell_word(root));
  std::error_code error;
  std::string remedy = anew;
  if (failure.message.find(errno_text("open", EACCES)) != std::string::npos) {
    return fmt::format("crop index {}: not used: {}", printable(path), failure.message);
  }
  if (!std::filesystem::is_directory(path, error)) {
    remedy = "remove it, then " + anew;
  }
  return fmt::format("crop index {}: not used: {}; {}", printable(path), failure.message, remedy);
}

/// The first that fits; else `refusal` says why one that is there does not.
std::optional<FolderCrops> find_stored(const Places& places, const Dataset& folder,
                                       const std::string& root, const OpenOptions& options,
                                       std::string& refusal) {
  std::vector<std::string> paths = {places.beside + "/" + places.name};
  for (const std::string& cache : cache_candidates(options.cache_dir)) {
    if (is_own_folder(cache)) paths.push_back(cache + "/" + places.cached_name);
  }
  for (const std::string& path : paths) {
    Result<FolderCrops> stored = open_stored(path, folder);
    if (stored) return *std::move(stored);
    if (stored.error().code == ErrorCode::kNotFound || !refusal.empty()) continue;
    refusal = describe_refusal(path, stored.error(), root);
  }
  return std::nullopt;
}

std::size_t threads_of(const OpenOptions& options) {
  return options.thread_count != 0 ? options.thread_count : usable_cores();
}

/// Which of the stored crop indexes are still those of the files, by size and time.
class KnownCrops {
 public:
  /// Asks for the size and time of each file.
  KnownCrops(FolderCrops stored, const Dataset& folder, std::size_t thread_count)
      : crops_(std::move(stored)), fits_(static_cast<std::size_t>(folder.size())) {
    const auto files = FolderFiles::open_folder(crops_.path);
    Result<PictureStamps> stamps =
        files ? PictureStamps::map(**files, folder.size()) : Result<PictureStamps>(files.error());
    if (stamps) stamps_ = *std::move(stamps);
    parallel_for(fits_.size(), thread_count, [&](std::size_t i) {
      const PictureStamp known = stamps_.of(i);
      const bool is_same =
          known.size_bytes != PictureStamp::kUnread && known == stamp_of(folder.path(i));
      fits_[i] = is_same ? 1 : 0;
    });
  }

  bool fits(std::uint64_t sample) const noexcept {
    return fits_[static_cast<std::size_t>(sample)] != 0;
  }
  PictureStamp stamp(std::uint64_t sample) const noexcept { return stamps_.of(sample); }
  std::span<const std::byte> index(std::uint64_t sample) const noexcept {
    return crops_.columns.of(sample);
  }
  bool is_current() const noexcept {
    return std::find(fits_.begin(), fits_.end(), 0) == fits_.end();
  }
  /// Of pictures that are read when the rest is taken over.
  std::uint64_t work_count() const noexcept {
    std::uint64_t count = 0;
    for (std::uint64_t i = 0; i < fits_.size(); ++i) count += !fits(i) || index(i).empty() ? 1 : 0;
    return count;
  }
  /// Files that were read, but are others by now.
  std::vector<std::uint64_t> changed() const {
    std::vector<std::uint64_t> samples;
    for (std::uint64_t i = 0; i < fits_.size(); ++i) {
      const bool was_read = stamps_.of(i).size_bytes != PictureStamp::kUnread;
      if (was_read && !fits(i)) samples.push_back(i);
    }
    return samples;
  }
  FolderCrops take() && { return std::move(crops_); }

 private:
  FolderCrops crops_;
  PictureStamps stamps_;    // None where they are damaged: then nothing fits.
  std::vector<char> fits_;  // Not bool: threads write side by side.
};

/// Files that could not be read.
struct Unread {
  std::uint64_t count = 0;
  std::uint64_t first = 0;
  std::string reason;  ///< Of the first.
};

/// Writes what is made of each file, or known of it. A file that can't be read has none: whether
/// that is an error is for those to say who load it.
class FolderIndexing {
 public:
  /// `known` may be null.
  FolderIndexing(const Dataset& folder, const OpenOptions& options, const KnownCrops* known)
      : folder_(folder),
        known_(known),
        thread_count_(threads_of(options)),
        counter_(options.crop_index_progress,
                 known != nullptr ? known->work_count() : folder.size()) {}

  Result<void> write(IndexFiles& files) {
    Result<CropColumnsWriter> columns = CropColumnsWriter::create(files);
    if (!columns) return columns.error();
    Result<PictureStampsWriter> stamps = PictureStampsWriter::create(files);
    if (!stamps) return stamps.error();
    count_ = 0;
    gaps_.clear();
    unread_ = {};
    for (std::uint64_t i = 0; i < folder_.size(); i += kPieceSamples) {
      const auto piece_samples =
          static_cast<std::size_t>(std::min(folder_.size() - i, kPieceSamples));
      std::vector<PictureStamp> piece_stamps(piece_samples);
      const CropIndexes piece = make_piece(i, piece_stamps);
      count_ += piece.count;
      add_gaps(piece.gaps, gaps_);
      if (Result<void> put = columns->append(piece); !put) return put;
      if (Result<void> put = stamps->append(piece_stamps); !put) return put;
    }
    if (Result<void> finished = columns->finish(); !finished) return finished;
    if (Result<void> finished = stamps->finish(); !finished) return finished;
    std::vector<int> fds = columns->fds();
    for (const int fd : stamps->fds()) fds.push_back(fd);
    return write_meta(files, std::move(fds));
  }

  const Unread& unread() const noexcept { return unread_; }

 private:
  /// And has all files on the disk when it returns.
  Result<void> write_meta(IndexFiles& files, std::vector<int> fds) const {
    const Result<Fd> fd = files.create(kMetaFile);
    if (!fd) return fd.error();
    const std::string path = files.path(kMetaFile);
    if (Result<void> put = write_at(fd->get(), path, 0, meta_text(folder_, count_, gaps_)); !put) {
      return put;
    }
    fds.push_back(fd->get());
    for (const int one : fds) {
      if (fsync(one) != 0) return system_failure(path, "fsync", errno);
    }
    return files.sync();
  }

  /// Of as many files as there are `stamps`.
  CropIndexes make_piece(std::uint64_t first, std::vector<PictureStamp>& stamps) {
    std::vector<MadeCropIndex> made(stamps.size());
    parallel_for(made.size(), thread_count_,
                 [&](std::size_t i) { made[i] = make_one(first + i, stamps[i]); });
    CropIndexes piece;
    for (const MadeCropIndex& one : made) piece.append(one);
    return piece;
  }

  MadeCropIndex make_one(std::uint64_t sample, PictureStamp& stamp) {
    // Why a picture has none is known as a count only: that one is looked at again.
    if (known_ != nullptr && known_->fits(sample) && !known_->index(sample).empty()) {
      stamp = known_->stamp(sample);
      const auto index = known_->index(sample);
      return {{reinterpret_cast<const char*>(index.data()), index.size()}, ""};
    }
    const std::string path = folder_.path(sample);
    stamp = stamp_of(path);  // Before it is read: one that changes meanwhile is another one.
    const Result<std::string> encoded = read_whole_file(path);
    counter_.add(1, 1);
    if (encoded) return crop_index_of(*encoded);
    stamp = {};
    add_unread(sample, encoded.error().message);
    return {"", "can't be read"};
  }

  void add_unread(std::uint64_t sample, const std::string& message) {
    std::lock_guard lock(mutex_);
    if (++unread_.count > 1 && sample > unread_.first) return;
    unread_.first = sample;
    const std::size_t path_end = message.find(": ");
    unread_.reason = path_end == std::string::npos ? message : message.substr(path_end + 2);
  }

  const Dataset& folder_;
  const KnownCrops* const known_;
  const std::size_t thread_count_;
  CropCounter counter_;
  std::uint64_t count_ = 0;
  CropIndexGaps gaps_;
  std::mutex mutex_;
  Unread unread_;  // Guarded by mutex_ while a piece is made.
};

Result<void> store(FolderIndexing& indexing, const std::string& folder, const std::string& name) {
  const auto pending = PendingIndex::create(folder, name);
  if (!pending) return pending.error();
  if (Result<void> written = indexing.write((*pending)->files()); !written) return written;
  return (*pending)->publish();
}

/// Makes and stores them; where, is given back.
std::string make(FolderIndexing& indexing, const Places& places, const OpenOptions& options) {
  Result<void> stored = store(indexing, places.beside, places.name);
  if (stored) return places.beside + "/" + places.name;
  std::string reasons = stored.error().message;
  const Result<std::string> cache = make_cache_folder(options.cache_dir);
  if (cache) stored = store(indexing, *cache, places.cached_name);
  if (cache && stored) return *cache + "/" + places.cached_name;
  reasons += "; " + (cache ? stored : Result<void>(cache.error())).error().message;
  throw Error(ErrorCode::kIo,
              fmt::format("{}: the crop index can't be stored: {}; free space, make the folder "
                          "writable, or set cache_dir",
                          printable(places.beside), reasons));
}

std::string describe_unread(const Unread& unread, const Dataset& folder, const std::string& root) {
  const std::string first = folder.where(unread.first);
  const std::string which =
      unread.count == 1 ? first
                        : fmt::format("{} and {} more", first, with_commas(unread.count - 1));
  return fmt::format(
      "{} can't be read ({}), so that there is no crop index of {}; make {} readable, then "
      "feedrace index {} --crop-index again",
      which, unread.reason, unread.count == 1 ? "it" : "them", unread.count == 1 ? "it" : "them",
      shell_word(root));
}

std::string describe_changed(const std::vector<std::uint64_t>& changed, const Dataset& folder,
                             const std::string& root) {
  return fmt::format(
      "{}: crop index refreshed: {} of {} pictures changed since it was made, such as {}",
      printable(root), with_commas(changed.size()), with_commas(folder.size()),
      folder.where(changed[0]));
}

/// What killed processes left behind.
void tidy_up(const Places& places, const OpenOptions& options) {
  remove_stale_builds(places.beside, places.name);
  for (const std::string& cache : cache_candidates(options.cache_dir)) {
    if (is_own_folder(cache)) remove_stale_builds(cache, places.cached_name);
  }
}

/// Makes those that are missing or of files that changed; `stored` is what there is.
FolderCrops make_missing(const Dataset& folder, const std::string& root, const Places& places,
                         const OpenOptions& options, std::optional<FolderCrops> stored) {
  std::optional<KnownCrops> known;
  if (stored) known.emplace(*std::move(stored), folder, threads_of(options));
  if (known && known->is_current()) return std::move(*known).take();
  FolderIndexing indexing(folder, options, known ? &*known : nullptr);
  const std::string path = make(indexing, places, options);
  Result<FolderCrops> made = open_stored(path, folder);
  if (!made) throw Error(made.error().code, made.error().message);
  FolderCrops crops = *std::move(made);
  if (known) {
    const std::vector<std::uint64_t> changed = known->changed();
    if (!changed.empty()) crops.warnings.push_back(describe_changed(changed, folder, root));
  }
  if (indexing.unread().count > 0) {
    crops.warnings.push_back(describe_unread(indexing.unread(), folder, root));
  }
  return crops;
}

}  // namespace

FolderCrops open_folder_crops(const Dataset& folder, const std::string& root,
                              const OpenOptions& options) {
  const Places places = places_of(root);
  std::string refusal;
  std::optional<FolderCrops> stored;
  if (!options.rebuild_index) stored = find_stored(places, folder, root, options, refusal);
  if (options.make_crop_index) {
    tidy_up(places, options);
    return make_missing(folder, root, places, options, std::move(stored));
  }
  if (stored) return *std::move(stored);
  FolderCrops crops;
  if (!refusal.empty()) crops.warnings.push_back(refusal);
  return crops;
}

}  // namespace feedrace::formats
