// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"

namespace feedrace::formats {

/// Where the encoded image of one sample lies.
struct Place {
  static constexpr std::uint32_t kOwnFile = 0xffffffff;
  static constexpr std::uint64_t kUnknownSize = ~std::uint64_t{0};

  std::uint32_t shard = kOwnFile;           ///< Index in `Dataset::shards()`, or `kOwnFile`.
  std::uint64_t offset_bytes = 0;           ///< 0 for a file of its own.
  std::uint64_t size_bytes = kUnknownSize;  ///< Known for shards; a folder does not ask for sizes.
};

/// Where one field of a sample lies in the sample's shard.
struct FieldPlace {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

/// The form of a key that a file and the tar member packed from it have in common: without "./" in
/// front, and up to the first dot of the base name (WebDataset's rule). A name that the rule gives
/// no key (no dot, or a leading one) stays whole. A view into `key`.
std::string_view canonical_key(std::string_view key) noexcept;

/// A stretch of a data set that a person knows by name: a shard, a class folder.
struct Part {
  std::string name;  ///< Base name of the shard, name of the class folder.
  std::uint64_t first_sample = 0;
  std::string digest;  ///< 16 hex digits that change when something in it does, as far as known.
};

/// Numbers of pictures, by the reason why they have no crop index.
using CropIndexGaps = std::map<std::string, std::uint64_t>;

/// The samples of a data set, numbered from 0 in an order that depends on its content alone.
/// Immutable and thread-safe once made. Holds O(1) anonymous memory a sample at most for folders
/// and lists, none for shards (their index is memory-mapped).
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// "image folder", "webdataset shards", "file list".
  virtual std::string_view kind() const noexcept = 0;
  virtual std::uint64_t size() const noexcept = 0;

  virtual Place place(std::uint64_t sample) const noexcept = 0;
  /// The path to open when `place(sample).shard == kOwnFile`; otherwise the shard's.
  virtual std::string path(std::uint64_t sample) const = 0;
  /// Of a shard's sample its key; of a file its path under the root. Any bytes but 0.
  virtual std::string key(std::uint64_t sample) const = 0;
  /// The class number; -1 when the set has no labels at all. A Failure names sample and reason:
  /// a label that is not a whole number, or is missing where others have one.
  virtual Result<std::int64_t> label(std::uint64_t sample) const = 0;
  /// "train-0042.tar: sample 000123.jpg (offset 18874368, 41207 bytes)", for every message.
  virtual std::string where(std::uint64_t sample) const = 0;

  /// Paths of the shards, in order; empty for files.
  virtual const std::vector<std::string>& shards() const noexcept = 0;
  /// Class names by number; empty when only numbers are known.
  virtual const std::vector<std::string>& classes() const noexcept = 0;
  /// One line each: what was left out and why, what was refreshed.
  virtual const std::vector<std::string>& warnings() const noexcept = 0;
  /// 16 hex digits that change when keys, order, sizes or labels do; not when files are moved.
  virtual std::string fingerprint() const = 0;
  /// 16 hex digits over canonical keys and labels in order: the same for a folder and for shards
  /// packed from it in its order. Empty: not known.
  virtual std::string key_fingerprint() const { return {}; }
  /// The same over canonical keys in any order. Empty: not known.
  virtual std::string key_set_fingerprint() const { return {}; }
  /// Names of the fields that samples have in their shards, such as "jpg", "cls", "json"; empty
  /// where each sample is a file of its own.
  virtual std::vector<std::string> stored_fields() const { return {}; }
  /// A field of a sample, in the shard of `place(sample)`; nothing when the sample has none of that
  /// name.
  virtual std::optional<FieldPlace> field_place(std::uint64_t /*sample*/,
                                                std::string_view /*name*/) const {
    return std::nullopt;
  }
  /// Places in the data of a sample's JPEG from which decoding can go on, so that a crop costs
  /// little more than its own blocks; what `feedrace index --crop-index` made. Mapped: it lives as
  /// long as the data set. Whether it is of the picture's bytes is found out where it is used.
  /// Empty: none.
  virtual std::span<const std::byte> crop_index(std::uint64_t /*sample*/) const noexcept {
    return {};
  }
  /// Samples that have one.
  virtual std::uint64_t crop_index_count() const noexcept { return 0; }
  /// Where the crop indexes lie; empty: nowhere.
  virtual std::string crop_index_path() const { return {}; }
  /// Samples that have none though they were made, by the reason, such as "too small".
  virtual CropIndexGaps crop_index_gaps() const { return {}; }
  /// The sources that a sample comes from, as words of a command. Empty: not known.
  virtual std::string source_words(std::uint64_t /*sample*/) const { return {}; }
  /// Shards or class folders in order, those without samples too; empty where there are none.
  virtual std::vector<Part> parts() const { return {}; }
  /// The largest and the mean encoded image; `Place::kUnknownSize` and 0 where sizes are not known.
  virtual std::uint64_t max_image_bytes() const noexcept = 0;
  virtual double mean_image_bytes() const noexcept = 0;
  /// Where labels come from, as a short phrase for people: "cls field", "json field, key "label"",
  /// "label file x.txt", "class folders", "list", "none: every label is -1".
  virtual std::string label_source() const = 0;
};

/// What to do with an index of shards that had to be made.
enum class StoreIndex {
  kTry,    ///< Store it; where that is not possible a warning, and each start makes it anew.
  kMust,   ///< Store it; where that is not possible an error (kIo).
  kNever,  ///< Write nothing, and keep it in memory without a warning. One that fits is used.
};

struct OpenOptions {
  /// Names of the image field, first found wins. Samples without any are left out, with a warning
  /// that counts them; a set with none at all is an error that lists the fields that there are. The
  /// last three are decoded pictures: by default, arrays count only in shards without any other.
  std::vector<std::string> image_fields = {"jpg", "jpeg",    "png",    "webp",
                                           "npy", "npy.lz4", "npy.zst"};
  /// Of the names of samples in a folder, in lower case; names have them in any case. A folder
  /// without any of these takes decoded pictures (.npy, .npy.lz4, .npy.zst) instead.
  std::vector<std::string> file_endings = {".jpg", ".jpeg", ".png", ".webp"};
  /// Where a shard's label comes from: "cls", "json" (then `label_json_key` names the member), ""
  /// for none. "auto": cls where there is one, else json, else none, with a warning. A field, JSON
  /// key or label file that is named, but gives no sample a label, is an error (kInvalidArgument).
  std::string label_field = "auto";
  std::string label_json_key = "label";
  /// A text file "key label" a line that gives the labels by key instead; empty: none.
  std::string label_file;
  /// Threads that read shard headers; 0: one for each usable core.
  std::size_t thread_count = 0;
  /// Where to keep indexes of shards in a folder that cannot be written; empty:
  /// $XDG_CACHE_HOME/feedrace, else ~/.cache/feedrace, else $TMPDIR/feedrace-<uid>.
  std::string cache_dir;
  /// Make the index anew even if the stored one fits.
  bool rebuild_index = false;
  StoreIndex store_index = StoreIndex::kTry;
  /// Make the crop index of each picture that has none: all pictures are read once. Of shards and
  /// image folders.
  bool make_crop_index = false;
  /// Told how many pictures are done, and which share of all; calls do not overlap. What it throws
  /// ends the making, and leaves stored indexes as they were.
  std::function<void(std::uint64_t picture_count, double share)> crop_index_progress;
};

/// A way to lay samples out on storage.
class Format {
 public:
  virtual ~Format() = default;
  virtual std::string_view name() const noexcept = 0;  ///< "folder", "webdataset", "list".
  /// True when the sources look like this format. Looks at names and kinds of files, not inside.
  virtual bool accepts(const std::vector<std::string>& sources) const = 0;
  /// Throws Error: kNotFound, kIo, kCorruptData, kInvalidArgument; never gives an empty set.
  virtual std::unique_ptr<Dataset> open(const std::vector<std::string>& sources,
                                        const OpenOptions& options) const = 0;
};

/// Opens a folder of class folders, tar shards (folder, glob or brace pattern, one or several) or a
/// list, with the first format that accepts the sources. Throws Error.
std::unique_ptr<Dataset> open_dataset(const std::vector<std::string>& sources,
                                      const OpenOptions& options = {});

}  // namespace feedrace::formats
