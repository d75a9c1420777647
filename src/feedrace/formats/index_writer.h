// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/formats/crop_columns.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/index_files.h"
#include "feedrace/formats/index_meta.h"
#include "feedrace/formats/key_digest.h"
#include "feedrace/formats/npy.h"
#include "feedrace/formats/shard_index.h"
#include "feedrace/formats/shard_scan.h"

namespace feedrace::formats {

/// Writes an index shard by shard; needs memory for one shard, whatever the size of the set.
class IndexWriter {
 public:
  /// Failure: kIo.
  static Result<std::unique_ptr<IndexWriter>> create(IndexFiles& files, std::string options,
                                                     std::vector<std::string> image_fields);

  /// Adds a shard behind those before. Failures: kIo; kInvalidArgument for more than 65,535 fields.
  Result<void> append(const std::string& name, const ShardScan& scan);
  /// Writes what is left and meta.json, and has it all on the disk when it returns. Failure: kIo.
  Result<void> finish();

 private:
  enum Column {
    kShard,
    kLabel,
    kLabelState,
    kFirstMember,
    kKeyBegin,
    kKeys,
    kField,
    kOffset,
    kSize,
    kImageSamples,
    kColumnCount
  };

  IndexWriter(IndexFiles& files, std::string options, std::vector<std::string> image_fields);
  Result<void> open_columns();
  Result<std::vector<std::uint16_t>> number_fields(const ShardScan& scan);
  Result<void> append_columns(const ShardScan& scan, const std::vector<std::uint16_t>& numbers);
  Result<void> finish_crops();
  Result<void> count_images(const ShardScan& scan, IndexMeta::Shard& shard);

  IndexFiles& files_;
  const std::vector<std::string> image_fields_;
  IndexMeta meta_;
  std::uint64_t key_bytes_ = 0;
  double image_bytes_ = 0;
  std::unordered_map<std::string, std::uint16_t> field_numbers_;
  std::vector<NpyWriter> columns_;
  std::optional<CropColumnsWriter> crops_;
  Fingerprint fingerprint_;
  KeyDigest key_digest_;
};

/// Scans shards on several threads and writes them in order.
struct IndexBuild {
  std::vector<std::string> paths;  ///< Of the shards, in order.
  std::string options;             ///< As `IndexMeta::options`.
  std::vector<std::string> image_fields;
  LabelSource labels;
  std::size_t thread_count = 1;
  /// A shard that is already known, or nothing; called from several threads. May be empty.
  std::function<std::optional<ShardScan>(std::size_t)> known;
  /// Not null: make the crop indexes of shards that have none, and count them here.
  CropCounter* crop_counter = nullptr;
};

/// Writes the index to `files`. Failure: that of the first shard in order that cannot be read, with
/// the number of the others; else kIo of writing, with `write_failed` set.
Result<void> build_index(const IndexBuild& build, IndexFiles& files, bool& write_failed);

}  // namespace feedrace::formats
