// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/picture_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "feedrace/core/alignment.h"

namespace feedrace::cuda {
namespace {

// Of what is decoded many at a time, at first: what photos of ImageNet's kind have.
constexpr std::uint32_t kFirstSidePx = 1024;
// More is not asked for: room for a whole batch of such pictures is taken at once.
constexpr std::uint32_t kMostSidePx = 4096;
constexpr std::uint32_t kSideStepPx = 256;
// Each picture begins at a multiple of this, which loads of 16 bytes and more want.
constexpr std::size_t kPictureAlignment = 256;
constexpr std::size_t kStagingBytes = 256;  // A picture, as plugin_abi.h says.
// At the end of a picture's memory: 21 pixels that no picture has in this order.
constexpr std::size_t kMarkBytes = 64;

// Of a place that is another's: one pixel that is always there, address 0 of the memory.
constexpr feedrace_cuda_picture kNoPicture{0, 3, 1, 1};

PixelSource source_of(int engine) {
  if (engine == FEEDRACE_CUDA_ENGINE_HARDWARE) return PixelSource::kHardware;
  if (engine == FEEDRACE_CUDA_ENGINE_SOFTWARE) return PixelSource::kSoftware;
  return PixelSource::kNone;
}

std::byte mark_byte(std::size_t i) { return static_cast<std::byte>((i * 89 + 37) % 251); }

std::size_t mark_bytes(const feedrace_cuda_picture& picture) {
  return std::min(kMarkBytes, std::size_t{3} * picture.width_px * picture.height_px);
}

std::uint64_t mark_address(const feedrace_cuda_picture& picture) {
  return picture.address + std::uint64_t{3} * picture.width_px * picture.height_px -
         mark_bytes(picture);
}

/// Batches differ in size from one to the next: with room to spare, few of them ask for more.
std::size_t with_room(std::size_t bytes) { return bytes + bytes / 2; }

void reserve(const std::shared_ptr<Device>& device, DeviceMemory& memory, std::size_t bytes) {
  if (bytes <= memory.size_bytes()) return;
  memory = DeviceMemory();
  try {
    memory = DeviceMemory(device, with_room(bytes));
  } catch (const DeviceMemoryError&) {
    memory = DeviceMemory(device, bytes);
  }
}

}  // namespace

class PictureDecoder::Decoded {
 public:
  explicit Decoded(const std::shared_ptr<Device>& device) : done(device) {}

  /// Let go before its pass, as at the end of a run: what the pictures come from goes right behind.
  void settle() const noexcept {
    try {
      if (!done.is_done()) done.wait();
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // A lost device reads no more.
    }
  }

  HostMemory marks;  // The mark, then what is found in its place.
  PinnedRange pinned_marks;
  DeviceMemory pixels;
  DeviceMemory scratch;                         // Of the pass.
  HostMemory staging;                           // Likewise.
  PinnedRange pinned;                           // Behind what it pins.
  Event done;                                   // The pictures are decoded.
  std::vector<feedrace_cuda_picture> pictures;  // Of each place.
  std::vector<feedrace_cuda_geometry> geometries;
};

/// What was lent and is back. Outlives the decoder where a batch does.
struct PictureDecoder::Spare {
  std::mutex mutex;
  std::vector<std::unique_ptr<Decoded>> free;  // Guarded by mutex.
};

PictureDecoder::PictureDecoder(std::shared_ptr<Device> device, const Options& options)
    : device_(std::move(device)),
      options_(options),
      stream_(std::make_unique<Stream>(device_)),
      spare_(std::make_shared<Spare>()) {
  try_pass();
  if (options_.decodes_jpeg) open(kFirstSidePx, kFirstSidePx);
}

PictureDecoder::~PictureDecoder() { device_->table().close_decoder(decoder_); }

/// Of one place that is another's.
void PictureDecoder::try_pass() {
  constexpr std::size_t kMostNumberBytes = 4;
  const std::array<Picture, 1> none{};
  const feedrace_cuda_output& output = options_.output;
  const DeviceMemory destination(
      device_, std::size_t{3} * output.width_px * output.height_px * kMostNumberBytes);
  const std::shared_ptr<Decoded> decoded = lend();
  place(none, *decoded);
  decoded->done.record(stream_->handle());
  prepare_pass(none, *decoded);
  pass(*decoded, destination.address(), *stream_);
  Event done(device_);
  done.record(stream_->handle());
  done.wait();
}

/// The one that there was goes when the new one is there.
void PictureDecoder::open(std::uint32_t max_width_px, std::uint32_t max_height_px) {
  const feedrace_cuda_decoder_options options{options_.hardware_share, 0, options_.max_batch,
                                              max_width_px, max_height_px};
  feedrace_cuda_decoder* opened = nullptr;
  feedrace_cuda_error error{};
  require(device_->table().open_decoder(device_->handle(), &options, &opened, &error), error);
  device_->table().close_decoder(std::exchange(decoder_, opened));
  decodes_whole_ = device_->table().has_hardware_engine(decoder_) != 0;
  max_width_px_ = max_width_px;
  max_height_px_ = max_height_px;
}

/// Only what is decoded many at a time has bounds, so only the engine's pictures matter.
void PictureDecoder::fit(std::span<const Picture> pictures) {
  if (!decodes_whole_ || !may_grow_) return;
  std::uint32_t width_px = max_width_px_;
  std::uint32_t height_px = max_height_px_;
  std::size_t larger = 0;
  for (const Picture& picture : pictures) {
    if (picture.encoded.empty()) continue;
    if (picture.width_px <= max_width_px_ && picture.height_px <= max_height_px_) continue;
    ++larger;
    width_px = std::max(width_px, picture.width_px);
    height_px = std::max(height_px, picture.height_px);
  }
  if (larger <= pictures.size() / 4) return;
  const auto side = [](std::uint32_t px) {
    return std::min(kMostSidePx, static_cast<std::uint32_t>(round_up(px, kSideStepPx)));
  };
  if (side(width_px) == max_width_px_ && side(height_px) == max_height_px_) return;
  try {
    open(side(width_px), side(height_px));
  } catch (const DeviceMemoryError&) {
    may_grow_ = false;  // The software decodes them.
  }
}

std::shared_ptr<PictureDecoder::Decoded> PictureDecoder::lend() {
  std::unique_ptr<Decoded> decoded;
  {
    const std::lock_guard lock(spare_->mutex);
    if (!spare_->free.empty()) {
      decoded = std::move(spare_->free.back());
      spare_->free.pop_back();
    }
  }
  if (!decoded) decoded = std::make_unique<Decoded>(device_);
  return {decoded.release(), [spare = std::weak_ptr(spare_)](Decoded* returned) {
            std::unique_ptr<Decoded> owned(returned);
            owned->settle();
            const auto pool = spare.lock();
            if (!pool) return;
            const std::lock_guard lock(pool->mutex);
            pool->free.push_back(std::move(owned));
          }};
}

bool PictureDecoder::takes(const Picture& picture) const noexcept {
  if (picture.encoded.empty()) return picture.is_given();
  return decoder_ != nullptr;
}

bool PictureDecoder::is_placed_whole(const Picture& picture) const noexcept {
  return decodes_whole_ && !picture.encoded.empty();
}

/// Room for each picture, or for the box of it that the pass reads.
void PictureDecoder::place(std::span<const Picture> pictures, Decoded& decoded) {
  decoded.pictures.clear();
  std::size_t bytes = kPictureAlignment;  // The first is for places that are another's.
  for (const Picture& picture : pictures) {
    feedrace_cuda_picture placed = kNoPicture;
    if (takes(picture) && picture.rows.address == 0) {
      const bool is_whole = is_placed_whole(picture);
      placed.width_px = is_whole ? picture.width_px : picture.geometry.box_width_px;
      placed.height_px = is_whole ? picture.height_px : picture.geometry.box_height_px;
      placed.row_bytes = std::int64_t{3} * placed.width_px;
      placed.address = bytes;
      bytes += round_up(std::size_t{3} * placed.width_px * placed.height_px, kPictureAlignment);
    }
    decoded.pictures.push_back(placed);
  }
  reserve(device_, decoded.pixels, bytes);
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    decoded.pictures[i].address += decoded.pixels.address();
    if (pictures[i].rows.address != 0) decoded.pictures[i] = pictures[i].rows;
  }
}

/// Pictures that are decoded already. In front of the others, so that the copies run while nvJPEG
/// works on the CPU.
void PictureDecoder::copy(std::span<Picture> pictures, const Decoded& decoded) {
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    if (pictures[i].rows.address != 0) pictures[i].source = PixelSource::kThere;
    const std::span<const std::byte> pixels = pictures[i].pixels;
    if (pixels.empty()) continue;
    stream_->copy_to_device(decoded.pictures[i].address, pixels.data(), pixels.size());
    pictures[i].source = PixelSource::kCopy;
  }
}

/// Of the pictures that nvJPEG gets, in their order.
std::vector<feedrace_cuda_jpeg> PictureDecoder::jpegs_of(std::span<const Picture> pictures,
                                                         const Decoded& decoded) const {
  std::vector<feedrace_cuda_jpeg> jpegs;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const Picture& picture = pictures[i];
    if (!takes(picture) || picture.encoded.empty()) continue;
    const bool is_whole = is_placed_whole(picture);
    feedrace_cuda_jpeg jpeg{};
    jpeg.bytes = picture.encoded.data();
    jpeg.size_bytes = picture.encoded.size();
    jpeg.output = decoded.pictures[i];
    jpeg.region_x_px = is_whole ? 0 : picture.geometry.box_x_px;
    jpeg.region_y_px = is_whole ? 0 : picture.geometry.box_y_px;
    jpegs.push_back(jpeg);
  }
  return jpegs;
}

void PictureDecoder::decode_jpegs(std::span<Picture> pictures, Decoded& decoded) {
  std::vector<feedrace_cuda_jpeg> jpegs = jpegs_of(pictures, decoded);
  if (jpegs.empty()) return;
  run(jpegs, decoded);
  std::size_t next = 0;
  for (Picture& picture : pictures) {
    if (takes(picture) && !picture.encoded.empty()) {
      picture.source = source_of(jpegs[next++].engine);
    }
  }
}

void PictureDecoder::run(std::vector<feedrace_cuda_jpeg>& jpegs, Decoded& decoded) {
  if (decodes_whole_) mark(jpegs, decoded);
  feedrace_cuda_error error{};
  const int status = device_->table().decode(
      decoder_, jpegs.data(), static_cast<std::uint32_t>(jpegs.size()), stream_->handle(), &error);
  // Nothing that the caller of the loader has given.
  if (status == FEEDRACE_CUDA_INVALID) throw Error(ErrorCode::kUnsupported, error.message);
  require(status, error);
  if (decodes_whole_) look_at_marks(jpegs, decoded);
}

void PictureDecoder::make_room(const std::shared_ptr<Device>& device, HostMemory& memory,
                               PinnedRange& pinned, std::size_t bytes) {
  if (memory.size_bytes() >= bytes) return;
  pinned = PinnedRange();
  memory = HostMemory(bytes);
  try {
    pinned = PinnedRange(device, memory.data(), memory.size_bytes());
  } catch (const DeviceMemoryError&) {  // NOLINT(bugprone-empty-catch)
    // Out of pageable memory the driver copies these few bytes before the call returns.
  }
}

/// Waits until the marks are there: the engine does not wait for the stream.
void PictureDecoder::mark(const std::vector<feedrace_cuda_jpeg>& jpegs, Decoded& decoded) {
  make_room(device_, decoded.marks, decoded.pinned_marks, (options_.max_batch + 1) * kMarkBytes);
  for (std::size_t i = 0; i < kMarkBytes; ++i) decoded.marks.data()[i] = mark_byte(i);
  for (const feedrace_cuda_jpeg& jpeg : jpegs) {
    stream_->copy_to_device(mark_address(jpeg.output), decoded.marks.data(),
                            mark_bytes(jpeg.output));
  }
  decoded.done.record(stream_->handle());
  decoded.done.wait();
}

void PictureDecoder::look_at_marks(std::vector<feedrace_cuda_jpeg>& jpegs, Decoded& decoded) {
  const auto found = [&](std::size_t i) { return decoded.marks.data() + (i + 1) * kMarkBytes; };
  for (std::size_t i = 0; i < jpegs.size(); ++i) {
    if (jpegs[i].engine != FEEDRACE_CUDA_ENGINE_HARDWARE) continue;
    stream_->copy_to_host(found(i), mark_address(jpegs[i].output), mark_bytes(jpegs[i].output));
  }
  decoded.done.record(stream_->handle());
  decoded.done.wait();
  for (std::size_t i = 0; i < jpegs.size(); ++i) {
    if (jpegs[i].engine != FEEDRACE_CUDA_ENGINE_HARDWARE) continue;
    const bool is_untouched =
        std::memcmp(found(i), decoded.marks.data(), mark_bytes(jpegs[i].output)) == 0;
    if (is_untouched) jpegs[i].engine = FEEDRACE_CUDA_ENGINE_NONE;
  }
}

void PictureDecoder::prepare_pass(std::span<const Picture> pictures, Decoded& decoded) {
  decoded.geometries.clear();
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const Picture& picture = pictures[i];
    if (picture.source == PixelSource::kNone) {
      decoded.pictures[i] = kNoPicture;
      decoded.pictures[i].address = decoded.pixels.address();
      decoded.geometries.push_back({0, 0, 1, 1, 1, 1, 0, 0, 0, 0, {}});
      continue;
    }
    decoded.geometries.push_back(picture.geometry);
    if (is_placed_whole(picture)) continue;
    if (picture.rows.address == 0) decoded.geometries.back().box_x_px = 0;
    decoded.geometries.back().box_y_px = 0;
  }
  const auto count = static_cast<std::uint32_t>(pictures.size());
  std::size_t scratch_bytes = 0;
  feedrace_cuda_error error{};
  require(device_->table().fused_pass_scratch(device_->handle(), decoded.geometries.data(), count,
                                              &options_.output, &scratch_bytes, &error),
          error);
  reserve(device_, decoded.scratch, scratch_bytes);
  make_room(device_, decoded.staging, decoded.pinned, options_.max_batch * kStagingBytes);
}

std::shared_ptr<PictureDecoder::Decoded> PictureDecoder::decode(std::span<Picture> pictures) {
  for (Picture& picture : pictures) picture.source = PixelSource::kNone;
  if (std::none_of(pictures.begin(), pictures.end(),
                   [&](const Picture& picture) { return takes(picture); })) {
    return nullptr;
  }
  fit(pictures);
  std::shared_ptr<Decoded> decoded = lend();
  place(pictures, *decoded);
  if (!stream_) stream_ = std::make_unique<Stream>(device_);
  bool is_any = false;
  try {
    copy(pictures, *decoded);
    decode_jpegs(pictures, *decoded);
    // In any case: what failed half-way may have been begun.
    decoded->done.record(stream_->handle());
    is_any = std::any_of(pictures.begin(), pictures.end(), [](const Picture& picture) {
      return picture.source != PixelSource::kNone;
    });
    if (is_any) prepare_pass(pictures, *decoded);
    if (!is_any) decoded->done.wait();
  } catch (...) {
    stream_.reset();  // Waits for what was begun.
    throw;
  }
  return is_any ? decoded : nullptr;
}

void PictureDecoder::pass(Decoded& decoded, std::uint64_t destination, Stream& stream) {
  try {
    stream.wait(decoded.done);
  } catch (...) {
    stream_.reset();  // What comes behind on `stream` knows nothing of the pictures in work.
    throw;
  }
  feedrace_cuda_output output = options_.output;
  output.address = destination;
  feedrace_cuda_error error{};
  require(device_->table().fused_pass(
              device_->handle(), decoded.pictures.data(), decoded.geometries.data(),
              static_cast<std::uint32_t>(decoded.pictures.size()), &output,
              decoded.scratch.address(), decoded.scratch.size_bytes(), decoded.staging.data(),
              decoded.staging.size_bytes(), stream.handle(), &error),
          error);
}

}  // namespace feedrace::cuda
