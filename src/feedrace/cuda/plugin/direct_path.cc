// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/direct_path.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace feedrace::cuda_plugin {
namespace {

// The library writes a struct of its own version's size: 5000 bytes up to 1.18, 5112 from 1.19.
// More than any is given, and the end is looked at: what reached it has a layout of its own.
constexpr std::size_t kBufferBytes = std::size_t{64} * 1024;
constexpr std::byte kCanary{0xa5};

// Of level 1, which stands at the front of level 3; 1.19 put counters at its end.
constexpr std::size_t kBasicBytes = 512;
constexpr std::size_t kBasicBytes1190 = 624;
constexpr int kFirstWithReadv = 1190;
constexpr int kOldest = 1150;
constexpr int kNewest = 1209;  // Of the versions whose headers were read.

constexpr std::size_t kHistogramBytes = std::size_t{2} * 32 * 8;
constexpr std::size_t kGpuCount = 16;
constexpr std::size_t kGpuBytes = sizeof(CUfilePerGpuStats_t);
static_assert(sizeof(CUfileStatsLevel1_t) == kBasicBytes ||
              sizeof(CUfileStatsLevel1_t) == kBasicBytes1190);
static_assert(kGpuBytes == 248 && offsetof(CUfilePerGpuStats_t, n_p2p_reads) == 56);

}  // namespace

const char* to_string(DirectPath path) noexcept {
  switch (path) {
    case DirectPath::kNvidiaFs:
      return "nvidia-fs";
    case DirectPath::kP2pdma:
      return "p2pdma";
    case DirectPath::kCompatible:
      return "compatible";
    case DirectPath::kUnknown:
      break;
  }
  return "unknown";
}

std::optional<DirectReads> reads_of(std::span<const std::byte> statistics, int version) {
  if (version < kOldest || version > kNewest) return std::nullopt;
  const std::size_t basic = version >= kFirstWithReadv ? kBasicBytes1190 : kBasicBytes;
  const std::size_t count_at = basic + kHistogramBytes;
  const std::size_t gpus_at = count_at + 8;  // A uint32_t, and what aligns the structs behind it.
  const std::size_t end = gpus_at + kGpuCount * kGpuBytes;
  if (statistics.size() < end) return std::nullopt;
  const auto tail = statistics.subspan(end);
  if (std::any_of(tail.begin(), tail.end(), [](std::byte b) { return b != kCanary; })) {
    return std::nullopt;
  }
  std::uint32_t gpu_count = 0;
  std::memcpy(&gpu_count, statistics.data() + count_at, sizeof(gpu_count));
  if (gpu_count > kGpuCount) return std::nullopt;
  DirectReads sum;
  for (std::size_t i = 0; i < gpu_count; ++i) {
    CUfilePerGpuStats_t gpu;
    std::memcpy(&gpu, statistics.data() + gpus_at + i * kGpuBytes, sizeof(gpu));
    sum.nvidia_fs += gpu.n_nvfs_reads;
    sum.p2pdma += gpu.n_p2p_reads;
    sum.posix += gpu.n_posix_reads;
  }
  return sum;
}

DirectStatistics::DirectStatistics(const CuFile& cufile) : cufile_(cufile) {
  if (cufile.cuFileSetStatsLevel == nullptr || cufile.cuFileStatsStart == nullptr ||
      cufile.cuFileStatsStop == nullptr || cufile.cuFileGetStatsL3 == nullptr) {
    return;
  }
  if (cufile.cuFileSetStatsLevel(3).err != CU_FILE_SUCCESS) return;
  is_on_ = cufile.cuFileStatsStart().err == CU_FILE_SUCCESS;
  if (!is_on_) cufile.cuFileSetStatsLevel(0);
}

DirectStatistics::~DirectStatistics() {
  if (!is_on_) return;
  cufile_.cuFileStatsStop();
  cufile_.cuFileSetStatsLevel(0);
}

std::optional<DirectReads> DirectStatistics::reads() const {
  if (!is_on_) return std::nullopt;
  std::vector<std::byte> buffer(kBufferBytes, kCanary);
  if (cufile_.cuFileGetStatsL3(reinterpret_cast<CUfileStatsLevel3_t*>(buffer.data())).err !=
      CU_FILE_SUCCESS) {
    return std::nullopt;
  }
  return reads_of(buffer, cufile_.version);
}

DirectPath path_between(const std::optional<DirectReads>& before,
                        const std::optional<DirectReads>& after) noexcept {
  if (!before || !after) return DirectPath::kUnknown;
  if (after->posix > before->posix) return DirectPath::kCompatible;
  if (after->nvidia_fs > before->nvidia_fs) return DirectPath::kNvidiaFs;
  if (after->p2pdma > before->p2pdma) return DirectPath::kP2pdma;
  return DirectPath::kUnknown;
}

}  // namespace feedrace::cuda_plugin
