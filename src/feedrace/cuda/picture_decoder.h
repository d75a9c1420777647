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

/// How a picture's pixels came to a device.
enum class PixelSource : std::uint8_t {
  kNone,      ///< They did not.
  kHardware,  ///< Decoded there by the JPEG engine.
  kSoftware,  ///< Decoded there by nvJPEG on the device's cores.
  kCopy,      ///< Copied: the picture was decoded already.
  kThere,     ///< They lay there already, read past the host.
};

/// One place of a batch: a picture, encoded or as pixels, and what the fused pass makes of it.
struct Picture {
  std::span<const std::byte> encoded;  ///< JPEG.
  /// The geometry's box of a decoded picture: rows of RGB without gaps. Best in pinned memory:
  /// copies from other memory wait.
  std::span<const std::byte> pixels;
  /// The same on the device: whole rows of the picture, those of the box. Address 0: none. Where
  /// there is none of the three the place is another's.
  feedrace_cuda_picture rows{};
  std::uint32_t width_px = 0;  ///< As the header says.
  std::uint32_t height_px = 0;
  feedrace_cuda_geometry geometry{};        ///< Of the whole picture.
  PixelSource source = PixelSource::kNone;  ///< Out.

  bool is_given() const noexcept {
    return !encoded.empty() || !pixels.empty() || rows.address != 0;
  }
};

/// Decodes the pictures of batches on a device by nvJPEG, or takes them there as they are where
/// they are decoded already, and resizes, mirrors and normalises them there, in one pass into the
/// batch.
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
    /// False: nvJPEG is not opened, and takes no memory; JPEG pictures are left to the caller.
    bool decodes_jpeg = true;
  };

  /// The pictures of one batch in device memory, until the last owner lets go: behind the pass.
  class Decoded;

  /// Runs a pass, so that a kernel that this driver or device does not take shows here. Throws
  /// Error kUnsupported when there is no nvJPEG, if it is wanted, or no such kernel,
  /// DeviceMemoryError when there is no memory.
  PictureDecoder(std::shared_ptr<Device> device, const Options& options);
  ~PictureDecoder();
  PictureDecoder(const PictureDecoder&) = delete;
  PictureDecoder& operator=(const PictureDecoder&) = delete;

  /// Brings the pixels of what it can to the device, and says of each picture how; waits for the
  /// part that nvJPEG does on the CPU, not for the device. `encoded`, `pixels` and `rows` stay
  /// until the result's pass is done, or it was let go. Null when there are pixels of none. Throws
  /// Error: DeviceMemoryError, kUnsupported when the device is lost; then no picture is being
  /// written, and none is read.
  std::shared_ptr<Decoded> decode(std::span<Picture> pictures);

  bool decodes_jpeg() const noexcept { return options_.decodes_jpeg; }

  /// Puts the pass on a stream: it writes all places of the batch, those without pixels with
  /// anything. `destination` has room for all of them.
  void pass(Decoded& decoded, std::uint64_t destination, Stream& stream);

 private:
  struct Spare;

  void open(std::uint32_t max_width_px, std::uint32_t max_height_px);
  void try_pass();
  void fit(std::span<const Picture> pictures);
  std::shared_ptr<Decoded> lend();
  bool takes(const Picture& picture) const noexcept;
  bool is_placed_whole(const Picture& picture) const noexcept;
  void place(std::span<const Picture> pictures, Decoded& decoded);
  void copy(std::span<Picture> pictures, const Decoded& decoded);
  void decode_jpegs(std::span<Picture> pictures, Decoded& decoded);
  std::vector<feedrace_cuda_jpeg> jpegs_of(std::span<const Picture> pictures,
                                           const Decoded& decoded) const;
  void run(std::vector<feedrace_cuda_jpeg>& jpegs, Decoded& decoded);
  void mark(const std::vector<feedrace_cuda_jpeg>& jpegs, Decoded& decoded);
  void look_at_marks(std::vector<feedrace_cuda_jpeg>& jpegs, Decoded& decoded);
  static void make_room(const std::shared_ptr<Device>& device, HostMemory& memory,
                        PinnedRange& pinned, std::size_t bytes);
  void prepare_pass(std::span<const Picture> pictures, Decoded& decoded);

  const std::shared_ptr<Device> device_;
  const Options options_;
  feedrace_cuda_decoder* decoder_ = nullptr;  // Null: JPEG is not decoded.
  bool decodes_whole_ = false;                // The hardware engine takes no regions.
  std::uint32_t max_width_px_ = 0;
  std::uint32_t max_height_px_ = 0;
  bool may_grow_ = true;
  std::unique_ptr<Stream> stream_;  // Nobody else's.
  const std::shared_ptr<Spare> spare_;
};

}  // namespace feedrace::cuda
