// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/shard_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "feedrace/pack/tar_writer.h"

namespace feedrace::pack {
namespace {

/// The disk is given work in pieces of this size: all of a shard at its end would be waited for.
constexpr std::uint64_t kStartBytes = std::uint64_t{8} << 20;

std::string hex_of_hash(const XXH3_state_t& state) {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

void ShardWriter::Free::operator()(XXH3_state_s* state) const noexcept { XXH3_freeState(state); }

ShardWriter::ShardWriter(std::string name, formats::PendingFile file, bool is_aligned)
    : name_(std::move(name)),
      file_(std::move(file)),
      is_aligned_(is_aligned),
      hash_(XXH3_createState()) {
  if (!hash_) throw std::bad_alloc();
  XXH3_128bits_reset(hash_.get());
  buffer_.reserve(kBufferBytes);
}

Result<std::unique_ptr<ShardWriter>> ShardWriter::create(const PackFolder& folder,
                                                         const PackPart& part, std::string name,
                                                         bool is_aligned) {
  Result<formats::PendingFile> file =
      formats::PendingFile::create_in(folder.fd(), folder.path(), name, temporary_name(part, name));
  if (!file) return file.error();
  return std::unique_ptr<ShardWriter>(
      new ShardWriter(std::move(name), *std::move(file), is_aligned));
}

Result<void> ShardWriter::begin_member(std::string_view name, std::uint64_t size_bytes) {
  return append(tar_member_head(offset_bytes_, name, size_bytes, is_aligned_));
}

Result<void> ShardWriter::append(std::string_view bytes) {
  offset_bytes_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t taken = std::min(bytes.size(), kBufferBytes - buffer_.size());
    buffer_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (buffer_.size() < kBufferBytes) continue;
    if (Result<void> flushed = flush(); !flushed) return flushed;
  }
  return {};
}

Result<void> ShardWriter::end_member(std::uint64_t size_bytes) {
  return fill(tar_padding_bytes(size_bytes));
}

Result<void> ShardWriter::fill(std::uint64_t zero_bytes) {
  return append(std::string(static_cast<std::size_t>(zero_bytes), '\0'));
}

Result<void> ShardWriter::flush() {
  XXH3_128bits_update(hash_.get(), buffer_.data(), buffer_.size());
  if (Result<void> put = file_.append(buffer_); !put) return put;
  written_bytes_ += buffer_.size();
  buffer_.clear();
  if (written_bytes_ - started_bytes_ < kStartBytes) return {};
  // Only a hint: what fails here fails in fsync too, and is told there.
  (void)sync_file_range(file_.fd(), static_cast<off_t>(started_bytes_),
                        static_cast<off_t>(written_bytes_ - started_bytes_), SYNC_FILE_RANGE_WRITE);
  started_bytes_ = written_bytes_;
  return {};
}

Result<Manifest::Shard> ShardWriter::finish(std::uint64_t sample_count) {
  Result<void> done = fill(tar_end_bytes(offset_bytes_, is_aligned_));
  if (done) done = flush();
  if (done) done = file_.publish();
  if (!done) return done.error();
  return Manifest::Shard{name_, offset_bytes_, sample_count, hex_of_hash(*hash_)};
}

}  // namespace feedrace::pack
