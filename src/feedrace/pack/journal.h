// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/formats/posix_file.h"
#include "feedrace/pack/manifest.h"
#include "feedrace/pack/pack_files.h"

namespace feedrace::pack {

/// What a run packs: two runs may go on from each other only where all of it agrees.
struct JournalHead {
  std::string source;   ///< `Dataset::fingerprint()`.
  std::string sizes;    ///< Of all members, `ShardLayout::sizes()`.
  std::string times;    ///< Of all files. Copies on several machines may differ in it.
  std::string options;  ///< JSON text of what decides about the bytes.
  std::uint64_t shard_count = 0;
  std::uint64_t sample_count = 0;
  bool makes_crop_index = false;            ///< Of parts: who finishes them makes it.
  std::vector<Manifest::LeftOut> left_out;  ///< Before anything was read.

  /// "" or what differs, one clause. `is_same_run`: times count as well.
  std::string difference(const JournalHead& other, bool is_same_run) const;
};

/// Of two JSON texts of options, the first that differs: "align is true, and was not given"; "".
std::string option_difference(const std::string& options, const std::string& other);

/// A shard that is finished.
struct JournalShard {
  std::uint64_t number = 0;
  Manifest::Shard shard;
  std::vector<Manifest::LeftOut> left_out;
};

/// What a journal says: JSON lines, the head, then each finished shard.
struct JournalContent {
  JournalHead head;
  std::map<std::uint64_t, JournalShard> shards;
  std::uint64_t size_bytes = 0;  ///< Of whole lines; a run that died may have begun another.

  /// Failure: kCorruptData, without the file's name.
  static Result<JournalContent> parse(std::string_view text);
};

/// Notes finished shards. Not thread-safe.
class Journal {
 public:
  /// Begins one, or goes on behind `content`. Failure: kIo.
  static Result<Journal> open(const PackFolder& folder, const PackPart& part,
                              const JournalHead& head, const JournalContent* content);
  /// On the disk when it returns. Failure: kIo; then the shard is as if it had not been packed.
  Result<void> add(const JournalShard& shard);

 private:
  Journal(formats::Fd fd, std::string path, std::uint64_t size_bytes)
      : fd_(std::move(fd)), path_(std::move(path)), size_bytes_(size_bytes) {}
  Result<void> append(const std::string& line);

  formats::Fd fd_;
  std::string path_;
  std::uint64_t size_bytes_;
};

}  // namespace feedrace::pack
