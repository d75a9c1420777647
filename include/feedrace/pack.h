// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/format.h"
#include "feedrace/picture_change.h"
#include "feedrace/stats.h"

namespace feedrace::pack {

/// How far packing is.
struct PackProgress {
  enum class Phase : std::uint8_t {
    kPlan,  ///< Files of the sources are asked for their sizes; nothing is written.
    kShards,
    kIndex,
  };

  Phase phase = Phase::kShards;
  /// Done, by this run; of `kPlan` files asked, of `kIndex` pictures looked at.
  std::uint64_t sample_count = 0;
  std::uint64_t size_bytes = 0;  ///< Written by this run.
  double share = 0;              ///< Of this phase's work, in [0, 1].
};

/// What becomes of samples that vanish, change while they are packed, or can't be read.
enum class OnSourceError : std::uint8_t {
  kStop,  ///< The run ends with an Error; what is finished stays.
  kSkip,  ///< Left out, counted, and listed in the manifest.
};

/// Every N-th shard of a set that several machines pack into one folder.
struct PackPart {
  std::uint64_t number = 1;  ///< From 1.
  std::uint64_t count = 1;

  bool is_whole() const noexcept { return count == 1; }
};

struct PackOptions {
  static constexpr std::uint64_t kDefaultShardBytes = 1'000'000'000;

  /// An image folder, tar shards or a list, as `formats::open_dataset` takes them.
  std::vector<std::string> sources;
  /// Made where it is not there. Must be empty, or hold what a run with the same sources and
  /// options has left.
  std::string folder;
  std::string prefix = "shard";  ///< Shards are named PREFIX-000000.tar.
  /// Shards of as equal sample counts as can be; nothing: by size.
  std::optional<std::uint64_t> shard_count;
  /// A shard is closed before the sample that would make it larger; a sample larger than that has a
  /// shard of its own.
  std::uint64_t shard_size_bytes = kDefaultShardBytes;
  bool shuffle = false;    ///< By a permutation that `seed` gives; else in the sources' order.
  std::uint64_t seed = 0;  ///< Of `shuffle`.
  bool align = false;      ///< Payloads of 512 bytes and more begin at multiples of 4,096 bytes.
  bool make_crop_index = false;
  /// What is done to pictures. Sizes are then estimates from some of them, those of shards too.
  PictureChange pictures;
  OnSourceError on_error = OnSourceError::kStop;
  std::string exclude_file;      ///< JSON lines of samples to leave out; empty: none.
  std::size_t thread_count = 0;  ///< Shards written at a time; 0: one for each usable core.
  PackPart part;                 ///< Less than the whole makes neither index nor manifest.
  std::string backend = "auto";  ///< How sources are read, as the loader's.
  std::size_t queue_depth = 32;  ///< Reads in flight, for each thread.
  formats::OpenOptions format;   ///< Of the sources, and of the index that is made.
  /// Told ten times a second or more seldom; calls do not overlap. What it throws ends the run in
  /// order: finished shards stay, and the same call goes on.
  std::function<void(const PackProgress&)> progress;
};

/// What packing would do, known before anything is written.
struct PackPlan {
  std::string source_kind;             ///< "image folder", "webdataset shards", "file list".
  std::string source_fingerprint;      ///< `Dataset::fingerprint()`.
  std::vector<std::string> warnings;   ///< Of the sources, one line each.
  std::uint64_t sample_count = 0;      ///< That will be packed.
  std::uint64_t excluded_count = 0;    ///< By the list.
  std::uint64_t unreadable_count = 0;  ///< Left out as they can't be read, with `kSkip`.
  std::uint64_t shard_count = 0;
  std::uint64_t finished_count = 0;    ///< Shards that an earlier run has finished.
  bool is_packed = false;              ///< All of the set, its manifest too: nothing to do.
  std::uint64_t part_shard_count = 0;  ///< Of this part; else all.
  std::uint64_t source_bytes = 0;   ///< Of all members that are packed, as the sources have them.
  std::uint64_t payload_bytes = 0;  ///< Of the same in the shards; about, where they are changed.
  std::uint64_t size_bytes = 0;     ///< Of all shards.
  std::uint64_t largest_shard_bytes = 0;
  std::size_t thread_count = 0;
  std::uint64_t memory_bytes = 0;  ///< Buffers, and what is kept for each sample.
  std::uint64_t needed_bytes = 0;  ///< On the disk, for what is not there yet.
  std::uint64_t free_bytes = 0;    ///< On the disk of the folder.
  std::string storage;             ///< How the sources are read, one line.
  std::string change;  ///< What is done to pictures, and what that costs and wins, one line; or "".
  double change_size_ratio = 0;   ///< Bytes of changed pictures to those of now; 0: not known.
  double change_speed_ratio = 0;  ///< Training crops a core makes of them, likewise; reading apart.

  bool fits() const noexcept { return needed_bytes <= free_bytes; }
};

/// A sample that is in no shard.
struct LeftOutSample {
  std::string key;  ///< As the source has it. Any bytes but 0.
  std::string reason;
};

struct PackReport {
  std::uint64_t shard_count = 0;     ///< In the folder, of this part or the whole.
  std::uint64_t finished_count = 0;  ///< Of these, found finished.
  bool was_packed = false;           ///< The set was there with its manifest: nothing was packed.
  std::uint64_t sample_count = 0;
  std::uint64_t size_bytes = 0;
  std::vector<LeftOutSample> left_out;
  std::uint64_t failed_count = 0;  ///< Of these, by an error, not by the list.
  std::string manifest_path;       ///< Empty of a part.
  std::string index_path;          ///< Empty of a part.
  std::string key_fingerprint;     ///< Of the finished set; empty of a part.
  std::uint64_t crop_index_count = 0;
  std::uint64_t changed_count = 0;       ///< Pictures that this run has changed.
  std::vector<std::string> warnings;     ///< Those of the plan, then what the index had to say.
  std::vector<FallbackCount> fallbacks;  ///< What was wanted of the storage and could not be had.
  double seconds = 0;                    ///< From the making of the plan on.
};

/// One object of JSON, as the command line prints them. A text that is not UTF-8 is NAME_hex.
std::string to_json(const PackPlan& plan);
std::string to_json(const PackReport& report);
/// For a person, as the command line prints them: several lines, without the warnings.
std::string to_text(const PackPlan& plan);
std::string to_text(const PackReport& report);

/// Packs samples into tar shards that every WebDataset reader reads.
///
/// Contract:
/// - the same sources and options give the same bytes, whatever the threads, parts and restarts;
/// - a shard has its name only once it is whole and on the disk; the manifest comes last;
/// - a run that ended at any moment goes on with the same sources and options, without touching
///   finished shards; with others it is refused;
/// - one run at a time works in a folder, or one a part;
/// - nothing that was there before is overwritten.
/// One instance serves one thread.
class Packer {
 public:
  /// Opens the sources, asks for the sizes of all files and plans; writes nothing. Throws Error:
  /// kInvalidArgument (options, two samples of one key), and as `formats::open_dataset`.
  explicit Packer(PackOptions options);
  ~Packer();
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  const PackPlan& plan() const noexcept;

  /// Once. Throws Error: kInvalidArgument (the folder holds something else, or is being packed
  /// into), kIo (disk full, sources can't be read), kCorruptData, and what `progress` throws.
  PackReport run();

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

/// Makes one set of the parts that were packed into `folder`: index and manifest. Throws Error:
/// kNotFound (no parts; a shard is missing, by name), kInvalidArgument (parts of different sources
/// or options; one is being packed), kIo.
PackReport finish_parts(const PackOptions& options);

}  // namespace feedrace::pack
