// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/format.h"
#include "feedrace/formats/crop_columns.h"
#include "feedrace/formats/findings.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/tar_reader.h"

namespace feedrace::formats {

enum class LabelState : std::uint8_t {
  kMissing = 0,
  kOk = 1,
  kBad = 2,  ///< There is one, but it is no whole number.
};

/// Where labels come from; `OpenOptions` in a form that the scan can use.
struct LabelSource {
  std::string field;  ///< "auto", "" for none, or a field's name.
  std::string json_key;
  const LabelMap* by_key = nullptr;  ///< Instead of a field, when set.

  /// How much a field's label counts against another of the same sample; 0: it is none.
  int rank(std::string_view field_name) const noexcept;
};

/// True when a label in this field is inside a JSON document.
bool is_json_field(std::string_view field) noexcept;

/// What identifies a shard: size and time tell at once whether it may have changed, the hash
/// whether a copy is the same file.
struct ShardIdentity {
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::string hash;  ///< Of the first and the last 64 KiB; 16 hex digits.
};

/// Samples and members of one shard, in columns, as the index stores them.
struct ShardScan {
  ShardIdentity identity;
  // Samples; the two offset columns hold one more value than there are samples.
  std::vector<std::uint64_t> first_member{0};
  std::vector<std::uint64_t> key_begin{0};
  std::string keys;
  std::vector<std::int64_t> label;
  std::vector<std::uint8_t> label_state;
  // Members.
  std::vector<std::uint16_t> field;  ///< Index in `field_names`.
  std::vector<std::uint64_t> offset_bytes;
  std::vector<std::uint64_t> size_bytes;

  std::vector<std::string> field_names;
  Findings findings;
  std::optional<CropIndexes> crops;  ///< A sample each; nothing: not made.

  std::size_t sample_count() const noexcept { return label.size(); }
  std::size_t member_count() const noexcept { return field.size(); }
  std::string_view key(std::size_t sample) const noexcept {
    return std::string_view(keys).substr(key_begin[sample],
                                         key_begin[sample + 1] - key_begin[sample]);
  }
};

/// True of a finding by which a shard isn't whole, or holds samples that no reader gets; others are
/// odd, and nothing of a data set is missing.
bool says_damage(std::string_view finding) noexcept;

/// Sees every member of a tar in order, as its header has it. A Failure of it ends the scan.
using MemberVisitor = std::function<Result<void>(const TarMember&)>;

/// Reads the headers of a shard, and the labels in it, and groups members into samples. Parts of
/// one sample that lie apart are put together, and a sample that has a field twice is left out;
/// both are in the findings. Failures: as `TarReader`, those of `visit`, and kInvalidArgument for
/// more than 65,535 different fields.
Result<ShardScan> scan_shard(const ByteSource& source, const std::string& name,
                             const LabelSource& labels, const MemberVisitor& visit = {});

/// The same for a file; fills `identity`.
Result<ShardScan> scan_shard_file(const std::string& path, const LabelSource& labels,
                                  const MemberVisitor& visit = {});

/// Size, time and hash of a file. Failures: kNotFound, kIo.
Result<ShardIdentity> identify_shard(const std::string& path);

}  // namespace feedrace::formats
