// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/pack.h"
#include "feedrace/pack/journal.h"
#include "feedrace/pack/pack_files.h"
#include "feedrace/pack/pack_source.h"
#include "feedrace/pack/picture_change.h"
#include "feedrace/pack/picture_plan.h"
#include "feedrace/pack/sample_reader.h"
#include "feedrace/pack/shard_layout.h"
#include "feedrace/pack/shard_writer.h"

namespace feedrace::pack {

/// What the threads of a run have in common.
struct PackCounters {
  std::atomic<std::uint64_t> sample_count{0};
  std::atomic<std::uint64_t> size_bytes{0};     ///< Of samples that are written, as planned.
  std::atomic<std::uint64_t> changed_count{0};  ///< Pictures.
  std::atomic<bool> is_stopping{false};
};

/// Packs one shard after the other. One instance serves one thread.
class ShardPacker {
 public:
  /// Memory that one takes.
  static constexpr std::uint64_t kMemoryBytes =
      SampleReader::kMemoryBytes + ShardWriter::kBufferBytes;

  /// All but `backend` must outlive it.
  ShardPacker(const PackOptions& options, const PackSource& source, const ShardLayout& layout,
              const PicturePlan& pictures, const PackFolder& folder, PackCounters& counters,
              std::unique_ptr<storage::Backend> backend);

  /// Throws Error: kIo of the disk; a sample's, unless it is to be skipped; kCancelled when the
  /// counters say stop.
  JournalShard pack(std::uint64_t shard);

 private:
  /// Of one try: nothing when it must be begun anew without one more sample.
  std::unique_ptr<JournalShard> try_pack(std::uint64_t shard);
  /// Changes the sample's picture, if there is something to do to it; nothing is written yet.
  Result<void> change_picture(const ReadSample& sample);
  /// False when the sample could not be read after some of it was written.
  bool add_sample(ShardWriter& writer, const ReadSample& sample);
  bool stream_member(ShardWriter& writer, std::uint64_t sample, const SourceMember& member);
  void leave_out(std::uint64_t sample, const Failure& failure);

  const PackOptions& options_;
  const PackSource& source_;
  const ShardLayout& layout_;
  const PicturePlan& pictures_;
  const PackFolder& folder_;
  PackCounters& counters_;
  SampleReader reader_;
  std::optional<PictureChanger> changer_;  // Nothing: bytes stay as they are.
  // Of the sample that is being packed.
  std::optional<std::size_t> changed_member_;  // Nothing: none.
  ChangedPicture changed_;
  // Of the shard that is being packed.
  std::uint64_t shard_ = 0;
  std::set<std::uint64_t> skipped_;
  std::vector<Manifest::LeftOut> left_out_;
};

}  // namespace feedrace::pack
