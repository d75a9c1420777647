// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/pack.h"
#include "feedrace/pack/folder_state.h"
#include "feedrace/pack/journal.h"
#include "feedrace/pack/pack_files.h"

namespace feedrace::pack {

/// Makes a finished set of shards that are all there: index, then the manifest, and fills in what
/// the report says of them. Removes what only a run needs, but the lock. Throws Error kIo, and what
/// `progress` throws.
void finish_set(const PackFolder& folder, const PackOptions& options, const Manifest& manifest,
                PackReport& report);

/// Small files, and what a file system needs besides.
inline constexpr std::uint64_t kSpareBytes = std::uint64_t{1} << 20;
/// Bytes of the indexes of a set, at most.
std::uint64_t index_bytes(std::uint64_t sample_count, std::uint64_t payload_bytes,
                          bool has_crop_index) noexcept;
/// `error`, which a full disk caused, with what is missing there.
Error full_disk_error(const Error& error, std::uint64_t needed_bytes, std::uint64_t free_bytes);

/// The manifest of a run or of parts. `shards` are in order.
Manifest manifest_of(const JournalHead& head, const std::vector<JournalShard>& shards);

/// Counts what `manifest` says into the report.
void count(const Manifest& manifest, PackReport& report);

/// Removes what runs of `part` that died were writing; of the whole: of all.
void remove_temporaries(const PackFolder& folder, const PackPart& part);

}  // namespace feedrace::pack
