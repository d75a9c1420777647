// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/formats/crop_columns.h"
#include "feedrace/formats/index_files.h"
#include "feedrace/formats/index_meta.h"
#include "feedrace/formats/npy.h"

namespace feedrace::formats {

/// The columns of an index and their types. Every file is `NAME.npy`.
struct ColumnType {
  std::string_view name;
  std::string_view type;
};
namespace columns {
// One value a sample.
inline constexpr ColumnType kShard{"shard", npy_type<std::uint32_t>()};
inline constexpr ColumnType kLabel{"label", npy_type<std::int64_t>()};
inline constexpr ColumnType kLabelState{"label_state", npy_type<std::uint8_t>()};
// One more than there are samples: where each begins, and at last the end.
inline constexpr ColumnType kFirstMember{"first_member", npy_type<std::uint64_t>()};
inline constexpr ColumnType kKeyBegin{"key_begin", npy_type<std::uint64_t>()};
// Bytes of all keys, one behind the other.
inline constexpr ColumnType kKeys{"keys", npy_type<std::uint8_t>()};
// One value a member.
inline constexpr ColumnType kField{"field", npy_type<std::uint16_t>()};
inline constexpr ColumnType kOffset{"offset", npy_type<std::uint64_t>()};
inline constexpr ColumnType kSize{"size", npy_type<std::uint64_t>()};
// Numbers of the samples that have an image; only there when some have none.
inline constexpr ColumnType kImageSamples{"image_samples", npy_type<std::uint64_t>()};
}  // namespace columns

inline constexpr const char* kMetaFile = "meta.json";

/// A stored index, memory-mapped. Opening checks shapes and sums only, whatever the number of
/// samples; each access checks its own bounds, so that a damaged or hostile index gives empty
/// answers, never a read outside. Immutable and thread-safe.
///
/// `sample` counts all samples here, with or without an image, from 0 to `sample_count() - 1`.
class ShardIndex {
 public:
  struct Member {
    std::uint16_t field = 0;  ///< Index in `meta().fields`; may be out of range in a hostile index.
    std::uint64_t offset_bytes = 0;
    std::uint64_t size_bytes = 0;
  };

  /// Failures: kNotFound (no index), kIo, kCorruptData.
  static Result<ShardIndex> open(const IndexFiles& files);

  const IndexMeta& meta() const noexcept { return meta_; }
  std::uint64_t sample_count() const noexcept { return meta_.sample_count; }

  /// The sample that is number `image` among those with an image.
  std::uint64_t sample_of_image(std::uint64_t image) const noexcept;
  std::uint32_t shard(std::uint64_t sample) const noexcept {
    return at<std::uint32_t>(shard_, sample);
  }
  std::string_view key(std::uint64_t sample) const noexcept;
  std::int64_t label(std::uint64_t sample) const noexcept {
    return at<std::int64_t>(label_, sample);
  }
  LabelState label_state(std::uint64_t sample) const noexcept;

  /// Of a sample's image; empty: none.
  std::span<const std::byte> crop_index(std::uint64_t sample) const noexcept {
    return crops_.of(sample);
  }

  /// Numbers of a sample's members: [first, second).
  std::pair<std::uint64_t, std::uint64_t> members(std::uint64_t sample) const noexcept;
  Member member(std::uint64_t number) const noexcept;

  /// The first sample of a shard; `shard` may be the number of shards, for the end of the last.
  std::uint64_t shard_begin(std::size_t shard) const noexcept { return shard_begin_[shard]; }

  /// One shard as if it had just been read, to write it into another index.
  /// Failure: kCorruptData when its columns contradict each other.
  Result<ShardScan> extract(std::size_t shard) const;

 private:
  template <typename T>
  static T at(const NpyMap& column, std::uint64_t i) noexcept {
    const std::span<const T> values = column.values<T>();
    return i < values.size() ? values[static_cast<std::size_t>(i)] : T{};
  }
  Result<void> map_columns(const IndexFiles& files);
  Result<void> check_shapes() const;

  IndexMeta meta_;
  std::vector<std::uint64_t> shard_begin_;
  NpyMap shard_, label_, label_state_, first_member_, key_begin_, keys_;
  NpyMap field_, offset_, size_, image_samples_;
  CropColumns crops_;
};

}  // namespace feedrace::formats
