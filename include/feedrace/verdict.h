// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace feedrace {

/// What keeps batches from coming faster. One entry per different remedy.
enum class Limit : std::uint8_t {
  kNothingYet,      ///< No batch was delivered.
  kTooShort,        ///< Too few batches: mostly the start is seen.
  kConsumer,        ///< Batches wait for the training loop: nothing to do.
  kBatchOverhead,   ///< Handing over many small batches takes the time.
  kColdStart,       ///< It waits at the start alone, for a cold page cache.
  kDecode,          ///< The decode threads, on cores of their own.
  kGpuStage,        ///< Decoding on the GPU.
  kOversubscribed,  ///< More threads of this process than cores.
  kNeighbour,       ///< Other processes take the cores.
  kSteal,           ///< The hypervisor takes them.
  kQuota,           ///< The control group's CPU quota is used up.
  kMemoryPressure,  ///< The kernel makes room all the time.
  kSwap,            ///< Pages come back from swap.
  kMemoryCopies,    ///< Copying out of memory, no device is waited for.
  kSlowSamples,     ///< A few samples that take long, one at a time.
  kStorage,         ///< The device or the way to it.
  kSmallFiles,      ///< A request for each small file.
  kSharedDevice,    ///< Others read from the same device.
  kGpuTopology,     ///< The GPU is far from the drive that it reads from directly.
  kBadSamples,      ///< Most samples are bad: what else is seen is that of their stand-ins.
};
inline constexpr std::uint8_t kLimitCount = 20;
/// As JSON spells it: "cold_start".
const char* to_string(Limit limit) noexcept;

/// What a part could give if everything else were free.
struct Ceiling {
  std::string part;  ///< "storage", "decode", "cores", "consumer", "loader".
  double images_per_second = 0;
  bool is_measured = false;  ///< By `bench ceilings`; else it follows from what the run did.
  bool is_at_least = false;  ///< The part was never seen busy enough to know more.
};

/// Something to do about it.
struct Remedy {
  std::string action;                       ///< "use 4 decode threads (num_threads=4)".
  std::string command;                      ///< That does it, or measures it; may be empty.
  std::optional<double> images_per_second;  ///< Predicted; nothing: it can't be told.
};

/// What was measured besides the run itself.
struct VerdictInput {
  /// What `feedrace bench ceilings PATH --json` wrote.
  std::optional<std::string> ceilings_json = std::nullopt;
  /// What `nvidia-smi dmon` wrote while the run went on.
  std::optional<std::string> gpu_dmon = std::nullopt;
};

/// Why training waits.
struct Verdict {
  Limit limit = Limit::kNothingYet;
  std::string headline;               ///< "decode limits".
  std::vector<std::string> evidence;  ///< A clause each, with the figure.
  std::vector<Ceiling> ceilings;      ///< Without the part that limits.
  std::vector<Remedy> remedies;       ///< The best first.
  std::vector<std::string> notes;     ///< Else worth knowing, a sentence each.
  double images_per_second = 0;       ///< Of the run.

  /// One line: all of it.
  std::string to_text() const;
  std::string to_json() const;
};

}  // namespace feedrace
