// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/cuda/plugin_loader.h"

namespace feedrace::cuda {

/// One place of a batch: a JPEG picture, and what the fused pass makes of it.
struct Picture {
  std::span<const std::byte> encoded;  ///< Empty: the place is another's.
  std::uint32_t width_px = 0;          ///< As the header says.
  std::uint32_t height_px = 0;
  feedrace_cuda_geometry geometry{};  ///< Of the whole picture.
  /// Out: whether it was decoded, and by what.
  feedrace_cuda_engine engine = FEEDRACE_CUDA_ENGINE_NONE;
};

/// Decodes the pictures of batches on a device by nvJPEG, and resizes, mirrors and normalises them
/// there, in one pass into the batch.
///
/// nvJPEG's hardware engine does not wait for earlier work on the stream that it is given (seen on
/// Hopper), so what it writes to is memory that nobody else uses any more, as the host has seen.
///
/// Of the pictures that the engine gets it says only all together whether it began with them, so
/// the last pixels of each are marked before and looked at afterwards: one that was not written to
/// its end was not decoded.
///
/// One thread calls it. What it gives may be let go by any.
class PictureDecoder {
 public:
  struct Options {
    std::uint32_t max_batch = 0;    ///< Places of a batch.
    double hardware_share = 0.65;   ///< See `feedrace_cuda_decoder_options`.
    feedrace_cuda_output output{};  ///< Its address is not looked at.
  };

  /// The pictures of one batch in device memory, until the last owner lets go: behind the pass.
  class Decoded;

  /// Runs a pass, so that a kernel that this driver or device does not take shows here. Throws
  /// Error kUnsupported when there is no nvJPEG or no such kernel, DeviceMemoryError when there is
  /// no memory.
  PictureDecoder(std::shared_ptr<Device> device, const Options& options);
  ~PictureDecoder();
  PictureDecoder(const PictureDecoder&) = delete;
  PictureDecoder& operator=(const PictureDecoder&) = delete;

  /// Decodes what it can, and says of each picture whether it did; waits for the part that nvJPEG
  /// does on the CPU, not for the device. `encoded` stays until the result's pass is done. Null
  /// when nothing was decoded. Throws Error: DeviceMemoryError, kUnsupported when the device is
  /// lost; then no picture is being written.
  std::shared_ptr<Decoded> decode(std::span<Picture> pictures);

  /// Puts the pass on a stream: it writes all places of the batch, those that were not decoded with
  /// anything. `destination` has room for all of them.
  void pass(Decoded& decoded, std::uint64_t destination, Stream& stream);

 private:
  struct Spare;

  void open(std::uint32_t max_width_px, std::uint32_t max_height_px);
  void try_pass();
  void fit(std::span<const Picture> pictures);
  std::shared_ptr<Decoded> lend();
  std::vector<feedrace_cuda_jpeg> place(std::span<const Picture> pictures, Decoded& decoded);
  void run(std::vector<feedrace_cuda_jpeg>& jpegs, Decoded& decoded);
  void mark(const std::vector<feedrace_cuda_jpeg>& jpegs, Decoded& decoded);
  void look_at_marks(std::vector<feedrace_cuda_jpeg>& jpegs, Decoded& decoded);
  static void make_room(const std::shared_ptr<Device>& device, HostMemory& memory,
                        PinnedRange& pinned, std::size_t bytes);
  void prepare_pass(std::span<const Picture> pictures, const std::vector<feedrace_cuda_jpeg>& jpegs,
                    Decoded& decoded);

  const std::shared_ptr<Device> device_;
  const Options options_;
  feedrace_cuda_decoder* decoder_ = nullptr;
  bool decodes_whole_ = false;  // The hardware engine takes no regions.
  std::uint32_t max_width_px_ = 0;
  std::uint32_t max_height_px_ = 0;
  bool may_grow_ = true;
  std::unique_ptr<Stream> stream_;  // Nobody else's.
  const std::shared_ptr<Spare> spare_;
};

}  // namespace feedrace::cuda
