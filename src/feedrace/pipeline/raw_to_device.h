// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "feedrace/cuda/batch_upload.h"
#include "feedrace/error.h"
#include "feedrace/pipeline.h"
#include "feedrace/pipeline/direct_copies.h"
#include "feedrace/storage/fallback_log.h"

namespace feedrace::pipeline {

/// Puts raw samples into batches on a device: those that cuFile has read there are copied on the
/// device, and the CPU sees no more of them than the header. One instance serves one thread.
///
/// Each call returns when its copies are done. All throw Error when the device fails.
class RawToDevice {
 public:
  /// `read_into`: where cuFile reads. What can't be pinned is counted in `log`.
  RawToDevice(std::shared_ptr<const cuda::DirectMemory> read_into, const RawSamples& raw,
              storage::FallbackLog& log);

  /// The sample's numbers, to place `index` of the batch. The sample lies on the device or on the
  /// host. Failure: kCorruptData, what `transform::find_raw_values` finds; the place is as it was.
  Result<void> put(std::span<const std::byte> sample, cuda::BatchUpload::Slot& batch,
                   std::size_t index);
  /// Zeros instead.
  void blank(cuda::BatchUpload::Slot& batch, std::size_t index);

 private:
  std::span<const std::byte> fetch_front(std::span<const std::byte> sample);

  DirectCopies copies_;
  const RawSamples raw_;
  const std::size_t sample_bytes_;
};

}  // namespace feedrace::pipeline
