// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/format.h"

namespace feedrace::pack {

/// One member of a sample, and where its bytes come from.
struct SourceMember {
  enum class From : std::uint8_t {
    kText,   ///< `text`: made up here, as a label is.
    kFile,   ///< All of file `path`.
    kShard,  ///< A stretch of shard `path`.
  };

  From from = From::kText;
  std::string field;  ///< The name in the tar is KEY.FIELD.
  std::uint64_t size_bytes = 0;
  std::string text;
  std::string path;
  std::uint64_t offset_bytes = 0;
  // Of the file, by which it is known again when it was read.
  std::uint64_t file_bytes = 0;
  std::int64_t mtime_ns = 0;
};

/// What of a source keeps samples out that nobody can list one by one: folders that can't be read,
/// shards that are damaged.
struct SourceDamage {
  ErrorCode code = ErrorCode::kIo;
  std::string name;    ///< Of the first sample, folder or shard that it is about.
  std::string reason;  ///< With where and how many, fit to print.
};

/// The samples that can be packed, in the sources' order, with the sizes of all files. Immutable
/// and thread-safe once made; some tens of bytes of memory a file, none a member of a shard.
class PackSource {
 public:
  virtual ~PackSource() = default;

  virtual std::uint64_t size() const noexcept = 0;
  /// In the tar: canonical for files, as it is for shards.
  virtual std::string key(std::uint64_t sample) const = 0;
  /// As lists of bad samples have it: `Dataset::key()`, and the path of the shard, or "".
  virtual std::string listed_key(std::uint64_t sample) const = 0;
  virtual std::string listed_shard(std::uint64_t /*sample*/) const { return {}; }
  /// For messages.
  virtual std::string where(std::uint64_t sample) const = 0;
  /// Replaces `members` by those of the sample, in the order of the tar. Failure: a file of it
  /// could not be asked for its size, or is no regular file.
  virtual Result<void> members(std::uint64_t sample, std::vector<SourceMember>& members) const = 0;

  /// Of the sample's picture, as the sources have it; empty: none.
  virtual std::span<const std::byte> crop_index(std::uint64_t sample) const noexcept {
    return dataset().crop_index(sample);
  }
  /// An entry a class or shard, and kind.
  virtual std::vector<SourceDamage> damage() const { return {}; }
  virtual const formats::Dataset& dataset() const noexcept = 0;
  /// One line each, those of the data set among them.
  virtual const std::vector<std::string>& warnings() const noexcept = 0;
  /// Files that are read, for the choice of the storage: all shards, or the files of a folder.
  virtual std::vector<std::string> some_files() const = 0;
  /// What is kept for the samples.
  virtual std::uint64_t memory_bytes() const noexcept = 0;
};

/// Told ten times a second at most, on the caller's thread, how many files were looked at and which
/// share of all. What it throws ends the work.
using Looked = std::function<void(std::uint64_t file_count, double share)>;

/// Opens the sources and asks for the size of each file. Throws Error: as `formats::open_dataset`;
/// kInvalidArgument: two files that give one key, a name that can't be one.
std::unique_ptr<PackSource> open_pack_source(const std::vector<std::string>& sources,
                                             const formats::OpenOptions& options,
                                             const Looked& looked = {});

// What that chooses from, each in a file of its own.
std::unique_ptr<PackSource> open_folder_source(std::unique_ptr<formats::Dataset> dataset,
                                               const std::string& root,
                                               const formats::OpenOptions& options,
                                               const Looked& looked);
std::unique_ptr<PackSource> open_list_source(std::unique_ptr<formats::Dataset> dataset,
                                             const formats::OpenOptions& options,
                                             const Looked& looked);
std::unique_ptr<PackSource> open_shard_source(const std::vector<std::string>& sources,
                                              const formats::OpenOptions& options);

}  // namespace feedrace::pack
