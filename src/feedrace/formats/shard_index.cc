// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/shard_index.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::formats {
namespace {

/// A few hundred bytes a shard and finding; more is not an index of ours.
constexpr std::uint64_t kMaxMetaBytes = std::uint64_t{1} << 30;

Result<std::string> read_meta(const IndexFiles& files) {
  const Result<Fd> fd = files.open(kMetaFile);
  if (!fd) return fd.error();
  struct stat status{};
  if (fstat(fd->get(), &status) != 0) return system_failure(files.path(kMetaFile), "stat", errno);
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes > kMaxMetaBytes) {
    return Failure{ErrorCode::kCorruptData, fmt::format("{}: {} bytes are too many for an index",
                                                        files.path(kMetaFile), bytes)};
  }
  std::string text(static_cast<std::size_t>(bytes), '\0');
  const Result<std::size_t> got = read_at(fd->get(), files.path(kMetaFile), 0, text);
  if (!got) return got.error();
  text.resize(*got);
  return text;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<ShardIndex> ShardIndex::open(const IndexFiles& files) {
  const Result<std::string> text = read_meta(files);
  if (!text) return text.error();
  Result<IndexMeta> meta = IndexMeta::from_json(*text);
  const auto corrupt = [&](const std::string& what) {
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("{}: {}", printable(files.path(kMetaFile)), what)};
  };
  if (!meta) return corrupt(meta.error().message);
  ShardIndex index;
  index.meta_ = *std::move(meta);
  index.shard_begin_.push_back(0);
  for (const IndexMeta::Shard& shard : index.meta_.shards) {
    index.shard_begin_.push_back(index.shard_begin_.back() + shard.sample_count);
  }
  if (const Result<void> mapped = index.map_columns(files); !mapped) return mapped.error();
  if (const Result<void> fits = index.check_shapes(); !fits) return corrupt(fits.error().message);
  return index;
}

Result<void> ShardIndex::map_columns(const IndexFiles& files) {
  const std::array<std::pair<NpyMap*, ColumnType>, 10> all = {
      {{&shard_, columns::kShard},
       {&label_, columns::kLabel},
       {&label_state_, columns::kLabelState},
       {&first_member_, columns::kFirstMember},
       {&key_begin_, columns::kKeyBegin},
       {&keys_, columns::kKeys},
       {&field_, columns::kField},
       {&offset_, columns::kOffset},
       {&size_, columns::kSize},
       {&image_samples_, columns::kImageSamples}}};
  const bool all_have_images = meta_.image_count == meta_.sample_count;
  for (const auto& [map, column] : all) {
    if (map == &image_samples_ && all_have_images) continue;
    const std::string name = fmt::format("{}.npy", column.name);
    const Result<Fd> fd = files.open(name);
    if (!fd) return fd.error();
    Result<NpyMap> mapped = NpyMap::map(fd->get(), files.path(name), column.type);
    if (!mapped) return mapped.error();
    *map = *std::move(mapped);
  }
  if (!meta_.has_crop_indexes()) return {};
  Result<CropColumns> crops = CropColumns::map(files, meta_.sample_count);
  if (!crops) return crops.error();
  crops_ = *std::move(crops);
  return {};
}

Result<void> ShardIndex::check_shapes() const {
  const std::uint64_t samples = meta_.sample_count;
  const std::uint64_t members = meta_.member_count;
  const bool shapes = shard_.count() == samples && label_.count() == samples &&
                      label_state_.count() == samples && first_member_.count() == samples + 1 &&
                      key_begin_.count() == samples + 1 && field_.count() == members &&
                      offset_.count() == members && size_.count() == members &&
                      (meta_.image_count == samples || image_samples_.count() == meta_.image_count);
  const bool ends = shapes && at<std::uint64_t>(first_member_, samples) == members &&
                    at<std::uint64_t>(key_begin_, samples) == keys_.count();
  if (ends) return {};
  return Failure{ErrorCode::kCorruptData, "columns do not have the sizes that it states"};
}

std::uint64_t ShardIndex::sample_of_image(std::uint64_t image) const noexcept {
  const bool all_have_images = meta_.image_count == meta_.sample_count;
  return all_have_images ? image : at<std::uint64_t>(image_samples_, image);
}

std::string_view ShardIndex::key(std::uint64_t sample) const noexcept {
  const auto begin = at<std::uint64_t>(key_begin_, sample);
  const auto end = at<std::uint64_t>(key_begin_, sample + 1);
  if (begin > end || end > keys_.count()) return {};
  const auto bytes = keys_.values<std::uint8_t>().subspan(static_cast<std::size_t>(begin),
                                                          static_cast<std::size_t>(end - begin));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

LabelState ShardIndex::label_state(std::uint64_t sample) const noexcept {
  switch (at<std::uint8_t>(label_state_, sample)) {
    case static_cast<std::uint8_t>(LabelState::kMissing):
      return LabelState::kMissing;
    case static_cast<std::uint8_t>(LabelState::kOk):
      return LabelState::kOk;
    default:
      return LabelState::kBad;
  }
}

std::pair<std::uint64_t, std::uint64_t> ShardIndex::members(std::uint64_t sample) const noexcept {
  const auto begin = at<std::uint64_t>(first_member_, sample);
  const auto end = at<std::uint64_t>(first_member_, sample + 1);
  if (begin > end || end > meta_.member_count) return {0, 0};
  return {begin, end};
}

ShardIndex::Member ShardIndex::member(std::uint64_t number) const noexcept {
  return {at<std::uint16_t>(field_, number), at<std::uint64_t>(offset_, number),
          at<std::uint64_t>(size_, number)};
}

Result<ShardScan> ShardIndex::extract(std::size_t shard) const {
  const auto corrupt = [&] {
    return Failure{ErrorCode::kCorruptData, "the stored index contradicts itself"};
  };
  ShardScan scan;
  scan.identity = meta_.shards[shard].identity;
  scan.field_names = meta_.fields;
  scan.findings = meta_.shards[shard].findings;
  if (meta_.shards[shard].crop_index_count) {
    scan.crops.emplace().gaps = meta_.shards[shard].crop_index_gaps;
  }
  for (std::uint64_t i = shard_begin(shard); i < shard_begin(shard + 1); ++i) {
    const auto [first, last] = members(i);
    if (first == last || this->shard(i) != shard) return corrupt();
    for (std::uint64_t m = first; m < last; ++m) {
      const Member one = member(m);
      if (one.field >= meta_.fields.size()) return corrupt();
      scan.field.push_back(one.field);
      scan.offset_bytes.push_back(one.offset_bytes);
      scan.size_bytes.push_back(one.size_bytes);
    }
    scan.first_member.push_back(scan.member_count());
    scan.keys += key(i);
    scan.key_begin.push_back(scan.keys.size());
    scan.label.push_back(label(i));
    if (scan.crops) scan.crops->append(text_of(crop_index(i)));
    scan.label_state.push_back(static_cast<std::uint8_t>(label_state(i)));
  }
  if (scan.member_count() != meta_.shards[shard].member_count) return corrupt();
  if (scan.crops && scan.crops->count != meta_.shards[shard].crop_index_count) return corrupt();
  return scan;
}

}  // namespace feedrace::formats
