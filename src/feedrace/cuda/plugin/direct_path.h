// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "feedrace/cuda/plugin/direct_library.h"

namespace feedrace::cuda_plugin {

/// The way that bytes take.
enum class DirectPath { kNvidiaFs, kP2pdma, kCompatible, kUnknown };

const char* to_string(DirectPath path) noexcept;

/// Reads by path since the statistics began, of all GPUs of the process.
struct DirectReads {
  std::uint64_t nvidia_fs = 0;
  std::uint64_t p2pdma = 0;
  std::uint64_t posix = 0;
};

/// Takes the counts out of what cuFileGetStatsL3 of this version wrote; nothing when the version's
/// layout is not known.
std::optional<DirectReads> reads_of(std::span<const std::byte> statistics, int version);

/// cuFile's statistics, on while this lives. Left on, they crash some versions at exit.
class DirectStatistics {
 public:
  explicit DirectStatistics(const CuFile& cufile);
  ~DirectStatistics();
  DirectStatistics(const DirectStatistics&) = delete;
  DirectStatistics& operator=(const DirectStatistics&) = delete;

  /// Nothing when this cuFile does not tell.
  std::optional<DirectReads> reads() const;

 private:
  const CuFile& cufile_;
  bool is_on_ = false;
};

/// The path of what was read between the two. A read that was copied in part was copied.
DirectPath path_between(const std::optional<DirectReads>& before,
                        const std::optional<DirectReads>& after) noexcept;

}  // namespace feedrace::cuda_plugin
