// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "feedrace/backend.h"
#include "feedrace/cuda/plugin_loader.h"
#include "feedrace/diagnose/io_run.h"
#include "feedrace/error.h"

namespace feedrace::diagnose {

/// The GPU in whose memory rows end.
struct DeviceTarget {
  std::shared_ptr<cuda::Device> device;  ///< Null: none, and `missing` says why.
  std::string missing = "no GPU was asked for";
  std::string name;  ///< "cuda:0 (NVIDIA H200)".
  /// Goes before /proc, /run and /dev where cuFile's needs are looked at; null, but in tests.
  const char* system_root = nullptr;
};

/// The ways into a GPU's memory.
enum class DeviceRead : std::uint8_t {
  kPageable,  ///< pread into ordinary memory, then a copy that waits, as programs do it.
  kPinned,    ///< A back end into pinned memory; copies run beside the reads that follow.
  kCuFile,    ///< cuFile into registered memory of the device.
};

// All of them: failures of what can't be opened, pinned or allocated; `check` and
// `check_what_is_left` compare what came back from the device.

/// On `job.thread_count` threads.
Result<std::unique_ptr<ReadPath>> make_pageable_reads(const DeviceTarget& target, const IoJob& job);

/// Keeps `job.queue_depth` reads of `backend` in flight; as many blocks again may be on their way
/// from pinned memory to the device. A block's latency ends when it is there.
Result<std::unique_ptr<ReadPath>> make_pinned_reads(std::unique_ptr<storage::Backend> backend,
                                                    const DeviceTarget& target, const IoJob& job);

/// On `job.thread_count` threads. kUnsupported where cuFile is refused before it starts or by
/// itself, or blocks are no multiples of 4096 bytes. Bytes are counted as Path::kGds and
/// Path::kGdsCompat, or, where cuFile does not tell, as neither. What system calls it makes is not
/// known.
Result<std::unique_ptr<ReadPath>> make_cufile_reads(const DeviceTarget& target, const IoJob& job);

}  // namespace feedrace::diagnose
