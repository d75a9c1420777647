// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/crop_columns.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/jpeg/crop_index.h"

namespace feedrace::formats {
namespace {

constexpr std::string_view kBeginType = npy_type<std::uint64_t>();
constexpr std::string_view kBytesType = npy_type<std::uint8_t>();

Result<NpyMap> map_file(const IndexFiles& files, const std::string& name, std::string_view type) {
  const Result<Fd> fd = files.open(name);
  if (!fd) return fd.error();
  return NpyMap::map(fd->get(), files.path(name), type);
}

Result<NpyWriter> create_file(IndexFiles& files, const std::string& name, std::string_view type) {
  Result<Fd> fd = files.create(name);
  if (!fd) return fd.error();
  return NpyWriter(*std::move(fd), files.path(name), type);
}

}  // namespace

Result<CropColumns> CropColumns::map(const IndexFiles& files, std::uint64_t sample_count) {
  CropColumns columns;
  Result<NpyMap> begin = map_file(files, kBeginFile, kBeginType);
  if (!begin) return begin.error();
  Result<NpyMap> bytes = map_file(files, kBytesFile, kBytesType);
  if (!bytes) return bytes.error();
  columns.begin_ = *std::move(begin);
  columns.bytes_ = *std::move(bytes);
  const auto begins = columns.begin_.values<std::uint64_t>();
  if (begins.size() != sample_count + 1 || begins.back() != columns.bytes_.count()) {
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("{}: not the crop index of {} samples",
                               printable(files.path(kBeginFile)), with_commas(sample_count))};
  }
  return columns;
}

std::span<const std::byte> CropColumns::of(std::uint64_t sample) const noexcept {
  const auto begins = begin_.values<std::uint64_t>();
  if (begins.empty() || sample >= begins.size() - 1) return {};
  const std::uint64_t begin = begins[static_cast<std::size_t>(sample)];
  const std::uint64_t end = begins[static_cast<std::size_t>(sample) + 1];
  if (begin > end || end > bytes_.count()) return {};
  return std::as_bytes(bytes_.values<std::uint8_t>().subspan(
      static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
}

Result<CropColumnsWriter> CropColumnsWriter::create(IndexFiles& files) {
  Result<NpyWriter> begin = create_file(files, CropColumns::kBeginFile, kBeginType);
  if (!begin) return begin.error();
  Result<NpyWriter> bytes = create_file(files, CropColumns::kBytesFile, kBytesType);
  if (!bytes) return bytes.error();
  CropColumnsWriter writer(*std::move(begin), *std::move(bytes));
  static constexpr std::array<std::uint64_t, 1> kZero = {0};
  if (Result<void> put = writer.begin_.append(std::span<const std::uint64_t>(kZero)); !put) {
    return put.error();
  }
  return writer;
}

Result<void> CropColumnsWriter::append(const CropIndexes& piece) {
  std::vector<std::uint64_t> begin(piece.begin.begin() + 1, piece.begin.end());
  for (std::uint64_t& one : begin) one += byte_count_;
  byte_count_ += piece.bytes.size();
  Result<void> put = begin_.append(std::span<const std::uint64_t>(begin));
  if (!put) return put;
  return bytes_.append(
      std::span(reinterpret_cast<const std::uint8_t*>(piece.bytes.data()), piece.bytes.size()));
}

Result<void> CropColumnsWriter::append_empty(std::uint64_t sample_count) {
  const std::vector<std::uint64_t> begin(static_cast<std::size_t>(sample_count), byte_count_);
  return begin_.append(std::span<const std::uint64_t>(begin));
}

Result<void> CropColumnsWriter::finish() {
  const Result<void> finished = begin_.finish();
  return finished ? bytes_.finish() : finished;
}

void CropCounter::add(std::uint64_t picture_count, std::uint64_t part) {
  std::lock_guard lock(mutex_);
  picture_count_ += picture_count;
  done_ = std::min(total_, done_ + part);
  if (!progress_ || total_ == 0) return;
  progress_(picture_count_, static_cast<double>(done_) / static_cast<double>(total_));
}

MadeCropIndex crop_index_of(std::string_view encoded) {
  MadeCropIndex made;
  const auto bytes = jpeg::make_crop_index(std::as_bytes(std::span(encoded)), &made.why_none);
  if (bytes) made.bytes.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return made;
}

void add_gaps(const CropIndexGaps& more, CropIndexGaps& gaps) {
  for (const auto& [reason, count] : more) gaps[reason] += count;
}

}  // namespace feedrace::formats
