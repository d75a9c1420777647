// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "feedrace/cuda/batch_upload.h"
#include "feedrace/cuda/picture_decoder.h"
#include "feedrace/loader.h"
#include "feedrace/pipeline/batch_slot.h"
#include "feedrace/storage/fallback_log.h"
#include "feedrace/transform/sample_worker.h"

namespace feedrace::pipeline {

struct PendingBatch;

/// Where batches are delivered, and where their pictures are decoded.
struct DeviceChoice {
  std::shared_ptr<cuda::Device> device;  ///< Null: the host's memory.
  std::string name;                      ///< "cpu", "cuda:0".
  std::string reason;                    ///< Of "auto".
  int host_node = -1;                    ///< NUMA node that copies come from best; -1: any.
  std::unique_ptr<cuda::PictureDecoder> decoder;  ///< Null: the host decodes.
  std::string decode_name;                        ///< As `name`.
  std::string decode_reason;                      ///< As `reason`.
};

/// Batches that circulate on a device: one that the consumer works on, one that it asks for, one
/// that is ready, one that is made.
constexpr std::size_t kDeviceBatches = 4;

/// Throws Error kInvalidArgument for a device of another kind, kUnsupported for one that is not to
/// be had or a pipeline that can't be delivered to it, with the chain of what was tried.
/// `is_decoded`: the samples are decoded pictures, for which nvJPEG is not opened.
DeviceChoice choose_device(const LoaderOptions& options, bool is_decoded = false);

/// Whether a device takes the picture's pixels as they are.
bool holds_pixels(const decode::ImageInfo& info);

/// What brings batches of a loader to its device. Thread-safe, but for `decode` and `upload`, which
/// are the stage's.
class DeviceDelivery {
 public:
  /// `planned` batches circulate on the device, `limit` at most.
  DeviceDelivery(DeviceChoice choice, const SlotShape& shape, std::size_t planned,
                 std::size_t limit, std::shared_ptr<storage::FallbackLog> fallbacks);

  /// Puts memory that nobody has touched on the device's side of the machine, and pins it. Null
  /// where it can't be pinned: copies from it wait then, which is counted.
  std::shared_ptr<const void> pin(std::span<std::byte> memory) const;

  /// False from the start, or since the device had no memory for pictures.
  bool decodes() const noexcept { return decodes_.load(std::memory_order_relaxed); }
  /// What the device makes of a drawn picture, its bytes left out; nothing where the host has to
  /// make it. Any thread.
  std::optional<cuda::Picture> picture(const transform::DrawnPicture& drawn,
                                       const Pipeline& pipeline) const;

  using Decoded = std::shared_ptr<cuda::PictureDecoder::Decoded>;
  /// Brings to the device what the batch has for its pass, decoded there or as pixels; the indexes
  /// of pictures that did not come there are added to `left`. Null when there is nothing. Throws
  /// Error when the device is lost.
  Decoded decode(PendingBatch& batch, std::vector<std::size_t>& left);
  /// A place for a batch whose images come to the device by another way. Any thread. Throws Error
  /// kUnsupported when there is no memory.
  std::shared_ptr<cuda::BatchUpload::Slot> take();
  /// Begins to bring the batch to the device, or what is left of it where it has a place of `take`.
  /// False once `stop` is requested. Throws Error kUnsupported when the device is lost.
  bool upload(const std::shared_ptr<PendingBatch>& batch, Decoded decoded,
              const std::stop_token& stop);
  /// Waits until no slot of the host is read any more.
  void finish() { upload_->finish(); }

  /// The batch with its images and labels on the device. Numbers, flags and fields stay on the
  /// host. The consumer's.
  Batch wrap(Batch&& on_host, const PendingBatch& pending);

  const std::shared_ptr<cuda::Device>& device() const noexcept { return device_; }
  bool is_starving() const { return upload_->is_starving(); }
  /// The device has no memory for the batches that circulate in any case: no fault of the
  /// consumer's.
  bool is_too_small() const { return upload_->limit() < planned_; }
  /// "the caller holds 4 batches of 19.3 MB each on the GPU, and there is no room for another".
  std::string starving_text() const;
  DeviceStats stats() const;

 private:
  std::vector<cuda::Piece> pieces_of(const PendingBatch& batch, std::size_t& bytes) const;
  std::vector<std::size_t> offsets_of(const PendingBatch& batch, std::size_t& bytes) const;
  void stop_decoding(const std::string& why);
  void count(const PendingBatch& batch);

  const std::shared_ptr<cuda::Device> device_;
  const int host_node_;
  const std::size_t planned_;
  const SlotShape shape_;
  const std::shared_ptr<storage::FallbackLog> fallbacks_;
  const std::shared_ptr<cuda::BatchUpload> upload_;
  const std::unique_ptr<cuda::PictureDecoder> decoder_;
  std::atomic<bool> decodes_;
  std::string shrunk_;  // What was said last.
  std::atomic<std::uint64_t> hardware_decoded_ = 0;
  std::atomic<std::uint64_t> software_decoded_ = 0;
  std::atomic<std::uint64_t> host_decoded_ = 0;
  std::atomic<std::uint64_t> already_decoded_ = 0;
  std::atomic<std::uint64_t> pixel_bytes_ = 0;  // Copied of those.
};

}  // namespace feedrace::pipeline
