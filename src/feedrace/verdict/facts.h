// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "feedrace/host/host_load.h"

namespace feedrace::verdict {

/// Threads that do the same.
struct StageFacts {
  std::size_t thread_count = 1;
  double busy_share = 0;                ///< Of their time; waiting for a device is busy here.
  std::optional<double> on_core_share;  ///< Of the busy time; nothing: not measured.
  double images_per_busy_second = 0;    ///< Of one thread; 0: unknown.
  double images_per_cpu_second = 0;     ///< Likewise.
};

/// Rates that `bench ceilings` measured; images/s.
struct MeasuredCeilings {
  std::optional<double> storage;         ///< The samples as they lie, nothing decoded.
  std::optional<double> packed;          ///< The same bytes in one large file.
  std::optional<double> decode;          ///< One thread, from memory.
  std::optional<double> decode_indexed;  ///< Likewise, with crop indexes.
  std::optional<double> loader;          ///< Nobody waits for the consumer.
  std::optional<double> consumer;        ///< Fed from one cached batch.
};

/// What is known of a run, between its first batch and now. The rules look at nothing else. What
/// was not seen is not set.
struct Facts {
  std::uint64_t batches = 0;
  double images_per_second = 0;
  double bad_share = 0;  ///< Of the samples that were to be delivered.
  std::size_t batch_size = 0;
  std::size_t prefetch_factor = 0;
  std::size_t queue_depth = 0;
  double usable_cores = 1;  ///< By affinity and quota; a part of one is possible.

  // The consumer.
  std::optional<double> wait_share;     ///< Of its time, in `next()`.
  std::optional<double> handing_share;  ///< Of its time, in `next()` though a batch was ready.
  std::optional<double> ready_batches;  ///< When it asks, on average.
  std::optional<double> gpu_busy_share;

  // The start: shares of waiting in the first and the last part of the run.
  std::optional<double> early_wait_share;
  std::optional<double> late_wait_share;
  double early_seconds = 0;
  double early_part = 0;  ///< Of the whole run's time: waiting in its first part.
  double late_images_per_second = 0;
  /// Least and most waiting in a stretch of the run.
  std::optional<double> least_wait_share;
  std::optional<double> most_wait_share;

  // Stages.
  std::optional<StageFacts> io, decode, device;

  // Reads.
  bool reads_only = false;  ///< Nothing is decoded.
  bool are_files = false;   ///< Each sample is a file of its own.
  double mean_read_bytes = 0;
  double read_p50_ms = 0;
  double read_p99_ms = 0;
  double read_mean_ms = 0;
  double read_least_ms = 0;  ///< Of the whole run: little was in line before that one.
  double reads_per_second = 0;
  double read_bytes_per_second = 0;
  std::optional<double> cached_share;  ///< Of the bytes read that no device had to give.
  bool has_shared_cache = false;
  std::string device_name;  ///< "nvme0n1"; empty: unknown.

  // Pictures.
  bool may_use_crop_index = false;  ///< Crops at random, by our decoder, and there is none.
  bool decodes_on_cpu = true;

  // Reads into a GPU's memory.
  bool is_direct = false;
  bool is_gpu_far = false;  ///< No common PCIe root.
  std::string gpu_path;     ///< "across sockets".
  double compat_share = 0;  ///< Of bytes that cuFile brought through host memory after all.

  host::HostRates host;
  MeasuredCeilings ceilings;
};

}  // namespace feedrace::verdict
