// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "feedrace/cuda/batch_upload.h"
#include "feedrace/loader.h"
#include "feedrace/pipeline/batch_slot.h"
#include "feedrace/storage/fallback_log.h"

namespace feedrace::pipeline {

/// Where batches are delivered.
struct DeviceChoice {
  std::shared_ptr<cuda::Device> device;  ///< Null: the host's memory.
  std::string name;                      ///< "cpu", "cuda:0".
  std::string reason;                    ///< Of "auto".
};

/// Throws Error kInvalidArgument for a device of another kind, kUnsupported for one that is not to
/// be had or a pipeline that can't be delivered to it, with the chain of what was tried.
DeviceChoice choose_device(const LoaderOptions& options);

/// Brings batches of a loader to its device. `pin` may be called by any thread, the others by the
/// consumer's.
class DeviceDelivery {
 public:
  /// `planned` batches circulate on the device, `limit` at most.
  DeviceDelivery(std::shared_ptr<cuda::Device> device, const SlotShape& shape, std::size_t planned,
                 std::size_t limit, std::shared_ptr<storage::FallbackLog> fallbacks);

  /// Null where the memory can't be pinned: copies from it wait then, which is counted.
  std::shared_ptr<const void> pin(std::span<std::byte> memory) const;
  /// The batch on the device; what it was on the host is kept until it is copied. Numbers, flags
  /// and fields stay on the host.
  /// `filled`: null, or the batch's place from `take`, with its images in it.
  Batch deliver(Batch&& on_host, std::shared_ptr<BatchSlot> slot,
                std::shared_ptr<cuda::BatchUpload::Slot> filled = nullptr);
  /// A place for a batch, for images that come to the device by another way. Any thread.
  std::shared_ptr<cuda::BatchUpload::Slot> take() { return upload_->take(); }
  /// Waits until no slot of the host is read any more.
  void finish() { upload_->finish(); }

  const std::shared_ptr<cuda::Device>& device() const noexcept { return device_; }
  std::uint64_t copied_bytes() const { return upload_->copied_bytes(); }

 private:
  const std::shared_ptr<cuda::Device> device_;
  const SlotShape shape_;
  const std::shared_ptr<storage::FallbackLog> fallbacks_;
  const std::shared_ptr<cuda::BatchUpload> upload_;
};

}  // namespace feedrace::pipeline
