// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "feedrace/error.h"
#include "feedrace/formats/pending_file.h"
#include "feedrace/pack/manifest.h"
#include "feedrace/pack/pack_files.h"

struct XXH3_state_s;

namespace feedrace::pack {

/// Writes one shard, a `PendingFile` until it is whole. Not thread-safe.
class ShardWriter {
 public:
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

  /// `folder` outlives it. Failure: kIo.
  static Result<std::unique_ptr<ShardWriter>> create(const PackFolder& folder, const PackPart& part,
                                                     std::string name, bool is_aligned);
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// The bytes of a member follow by `append`: all of them, then `end_member`.
  Result<void> begin_member(std::string_view name, std::uint64_t size_bytes);
  Result<void> append(std::string_view bytes);
  Result<void> end_member(std::uint64_t size_bytes);

  std::uint64_t size_bytes() const noexcept { return offset_bytes_; }

  /// Ends the archive, brings it to the disk and gives it its name. `sample_count` is for the
  /// manifest. Failure: kIo; then nothing is under the name.
  Result<Manifest::Shard> finish(std::uint64_t sample_count);

 private:
  ShardWriter(std::string name, formats::PendingFile file, bool is_aligned);

  Result<void> fill(std::uint64_t zero_bytes);
  Result<void> flush();

  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };

  const std::string name_;
  formats::PendingFile file_;
  const bool is_aligned_;
  const std::unique_ptr<XXH3_state_s, Free> hash_;
  std::string buffer_;
  std::uint64_t offset_bytes_ = 0;  // With what is in the buffer.
  std::uint64_t written_bytes_ = 0;
  std::uint64_t started_bytes_ = 0;  // Whose way to the disk has begun.
};

}  // namespace feedrace::pack
