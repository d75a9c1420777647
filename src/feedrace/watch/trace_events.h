// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace feedrace::watch {

using TraceTime = std::chrono::steady_clock::time_point;

inline std::uint64_t trace_ns(TraceTime time) noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

/// Just before the end of a span, so inside of it.
inline TraceTime just_before(TraceTime end) noexcept { return end - std::chrono::nanoseconds(1); }

/// In the order in which a sample passes them; a group of lanes each.
enum class TraceStage : std::uint8_t { kRead, kDecode, kDevice, kConsumer };
inline constexpr std::size_t kTraceStageCount = 4;

enum class TraceKind : std::uint8_t {
  // Spans of a reader.
  kChoose,     ///< Chooses reads and submits them.
  kRoom,       ///< Waits for room: a batch slot, or a read buffer.
  kAwaitRead,  ///< Waits for the store.
  kHandOn,     ///< Hands samples to the decode threads.
  kRead,       ///< A read in flight; several at a time. Subject: its first sample.
  // Of a decode thread. Subject: the sample.
  kAwaitWork,
  kDecode,
  // Of the device's thread.
  kAwaitBatch,
  kDevice,
  // Of the consumer.
  kNext,   ///< Waits for a batch.
  kTrain,  ///< Has one.
  // Where a batch comes to: its first sample is read, the consumer has it. In between it is full
  // where the last of its samples is decoded.
  kBatchRead,
  kBatchTaken,
};

/// What the thread does, in words; of a point what it is a point of. Lives as long as the process.
const char* to_string(TraceKind kind) noexcept;

struct TraceEvent {
  TraceKind kind = TraceKind::kChoose;
  std::uint64_t begin_ns = 0;  ///< Of the steady clock.
  std::uint64_t end_ns = 0;
  std::uint64_t subject = 0;
  std::uint64_t batch = 0;  ///< See `batch_id`.
};

/// A batch of an epoch as one number.
constexpr std::uint64_t batch_id(std::uint64_t epoch, std::uint64_t step) noexcept {
  return epoch << 40 | (step & ((std::uint64_t{1} << 40) - 1));
}
constexpr std::uint64_t epoch_of_batch(std::uint64_t id) noexcept { return id >> 40; }
constexpr std::uint64_t step_of_batch(std::uint64_t id) noexcept {
  return id & ((std::uint64_t{1} << 40) - 1);
}

}  // namespace feedrace::watch
