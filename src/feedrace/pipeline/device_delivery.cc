// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/device_delivery.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/alignment.h"
#include "feedrace/core/text.h"
#include "feedrace/host/numa.h"
#include "feedrace/pipeline/assembly.h"

namespace feedrace::pipeline {
namespace {

/// The number of "cuda:1", 0 of "cuda"; nothing when it is neither.
std::optional<int> ordinal_of(std::string_view name) {
  if (name == "cuda") return 0;
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  int ordinal = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  return is_whole && ordinal >= 0 ? std::optional(ordinal) : std::nullopt;
}

Result<std::shared_ptr<cuda::Device>> open_device(const LoaderOptions& options, int ordinal) {
  auto plugin = cuda::Plugin::load({options.cuda_plugin, options.cuda_libraries});
  if (!plugin) return plugin.error();
  return cuda::Device::open(*std::move(plugin), ordinal);
}

// A picture of more pixels has more device memory than its share of a batch's time is worth, and is
// as rare: the host decodes it.
constexpr std::uint64_t kMostDevicePixels = std::uint64_t{1} << 26;
constexpr std::size_t kLabelAlignment = 64;
/// Why pictures of a pipeline can't be decoded on a device; empty when they can.
std::string decode_refusal_of(const Pipeline& pipeline) {
  if (pipeline.reads_only || pipeline.raw) return "the pipeline decodes nothing";
  const std::vector<std::string> unfused = pipeline.unfused();
  if (!unfused.empty()) return unfused.front();
  if (!pipeline.erasings.empty()) return "random_erasing works on the finished tensor on the CPU";
  if (!pipeline.output_size()) return "pictures of different sizes are made on the CPU";
  return {};
}

feedrace_cuda_output output_of(const Pipeline& pipeline) {
  feedrace_cuda_output output{};
  const auto size = pipeline.output_size().value_or(ops::ImageSize{});
  output.width_px = size.width_px;
  output.height_px = size.height_px;
  output.dtype = pipeline.dtype == DType::kUint8     ? FEEDRACE_CUDA_UINT8
                 : pipeline.dtype == DType::kFloat16 ? FEEDRACE_CUDA_FLOAT16
                                                     : FEEDRACE_CUDA_FLOAT32;
  output.is_hwc = pipeline.layout == Layout::kHwc ? 1 : 0;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    output.mean[channel] = pipeline.mean.empty() ? 0.0F : pipeline.mean[channel];
    output.std[channel] = pipeline.std.empty() ? 1.0F : pipeline.std[channel];
  }
  return output;
}

/// Why there is no room for batches beside the decoder; empty when there is.
std::string lack_of_room(const LoaderOptions& options, const cuda::Device& device) {
  const std::uint64_t needed =
      kDeviceBatches * SlotShape(options.pipeline, options.batch_size).indices_at;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  feedrace_cuda_error error{};
  cuda::require(device.table().memory_facts(device.handle(), &free_bytes, &total_bytes, &error),
                error);
  if (free_bytes >= needed) return {};
  return fmt::format("{} of the GPU's memory are left, and {} batches take {}",
                     human_bytes(free_bytes), kDeviceBatches, human_bytes(needed));
}

/// Sets who decodes. Throws Error kUnsupported where the device has to, and can't.
void choose_decoder(const LoaderOptions& options, bool is_decoded, DeviceChoice& choice) {
  choice.decode_name = "cpu";
  const bool is_auto = options.decode_device == "auto";
  if (!is_auto && options.decode_device != "cpu" && options.decode_device != "cuda") {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("decode_device is {:?}; it must be \"auto\", \"cpu\" or \"cuda\"",
                            options.decode_device));
  }
  if (options.decode_device == "cpu" || (is_auto && !choice.device)) return;
  std::string refusal = choice.device ? decode_refusal_of(options.pipeline)
                                      : "batches are delivered to the host's memory";
  if (refusal.empty()) {
    try {
      choice.decoder = std::make_unique<cuda::PictureDecoder>(
          choice.device,
          cuda::PictureDecoder::Options{static_cast<std::uint32_t>(options.batch_size),
                                        options.hardware_share, output_of(options.pipeline),
                                        /*decodes_jpeg=*/!is_decoded});
      refusal = lack_of_room(options, *choice.device);
    } catch (const Error& error) {
      refusal = error.what();
    }
  }
  if (refusal.empty()) {
    choice.decode_name = choice.name;
    if (is_decoded) {
      choice.decode_reason =
          "the pictures are decoded already (.npy), so their pixels are copied there and go "
          "through "
          "one pass, without nvJPEG";
    } else if (is_auto) {
      choice.decode_reason = "nvJPEG can be used, and all steps are one pass";
    }
    return;
  }
  choice.decoder.reset();
  choice.decode_reason = "not on the GPU: " + refusal;
  if (is_auto) return;
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("decode_device \"cuda\" can't be had: {}; take decode_device=\"auto\"", refusal));
}

/// Whether images of one size are not in the host's slot, but come to the device by another way.
bool are_elsewhere(const SlotShape& shape) { return shape.image_bytes > 0 && shape.labels_at == 0; }

/// The bytes of a picture of this size.
std::size_t bytes_of(const SlotShape& shape, ops::ImageSize size) {
  return std::size_t{3} * size.width_px * size.height_px * shape.element_bytes;
}

/// What lies in the slot's memory from the begin to behind the labels, and holds the rest of what a
/// batch is made of.
class OnDevice final : public DeviceBatch {
 public:
  OnDevice(std::shared_ptr<cuda::BatchUpload::Slot> slot, const Batch& on_host,
           std::shared_ptr<const void> keep)
      : keep_(std::move(keep)),
        slot_(std::move(slot)),
        indices_(on_host.indices.begin(), on_host.indices.end()),
        flags_(on_host.flags.begin(), on_host.flags.end()) {}

  void hand_over(std::uint64_t stream) override { slot_->hand_over(stream); }
  void wait() override { slot_->wait(); }
  void read(const Tensor& tensor, std::byte* destination) override {
    const auto at = reinterpret_cast<std::uint64_t>(tensor.data) - slot_->address();
    slot_->read(at, {destination, tensor.size_bytes()});
  }

  std::byte* at(std::size_t bytes) const noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses of the device are numbers here.
    return reinterpret_cast<std::byte*>(slot_->address() + bytes);
  }
  std::span<const std::uint64_t> indices() const noexcept { return indices_; }
  std::span<const SampleFlag> flags() const noexcept { return flags_; }

 private:
  const std::shared_ptr<const void> keep_;  // In front of the slot, so that it goes behind it.
  const std::shared_ptr<cuda::BatchUpload::Slot> slot_;
  const std::vector<std::uint64_t> indices_;
  const std::vector<SampleFlag> flags_;
};

Tensor moved(Tensor tensor, std::byte* data, int ordinal) {
  tensor.data = data;
  tensor.device = ordinal;
  return tensor;
}

/// Sets where batches go.
void choose_target(const LoaderOptions& options, DeviceChoice& choice) {
  choice.name = "cpu";
  if (options.device == "cpu") return;
  const bool is_auto = options.device == "auto";
  const std::optional<int> ordinal = is_auto ? std::optional(0) : ordinal_of(options.device);
  if (!ordinal) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("device is {:?}; it must be \"cpu\", \"cuda\", \"cuda:N\" or \"auto\"",
                            options.device));
  }
  auto device = open_device(options, *ordinal);
  if (device) {
    choice.device = *std::move(device);
    const std::string root = options.system_root.empty() ? "/" : options.system_root;
    const int node = choice.device->table().host_node(choice.device->handle());
    if (host::node_count(root) > 1) choice.host_node = node;
    choice.name = fmt::format("cuda:{}", *ordinal);
    if (is_auto) choice.reason = "a GPU can be used";
    return;
  }
  if (!is_auto) {
    throw Error(ErrorCode::kUnsupported, fmt::format("device {:?} can't be had: {}", options.device,
                                                     device.error().message));
  }
  choice.reason = "no GPU can be used: " + device.error().message;
}

}  // namespace

DeviceChoice choose_device(const LoaderOptions& options, bool is_decoded) {
  const bool is_share = options.hardware_share >= 0 && options.hardware_share <= 1;  // No NaN.
  if (!is_share) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("hardware_share is {}; it must be from 0 to 1", options.hardware_share));
  }
  DeviceChoice choice;
  choose_target(options, choice);
  choose_decoder(options, is_decoded, choice);
  return choice;
}

bool holds_pixels(const decode::ImageInfo& info) { return info.format == std::string_view("npy"); }

std::optional<cuda::Picture> DeviceDelivery::picture(const transform::DrawnPicture& drawn,
                                                     const Pipeline& pipeline) const {
  if (!decodes()) return std::nullopt;
  const decode::ImageInfo& info = drawn.info;
  const bool is_turned = pipeline.orientation == Orientation::kUpright && info.orientation != 1;
  const bool is_jpeg = decoder_->decodes_jpeg() && info.format == std::string_view("jpeg");
  // Four components are CMYK or YCCK, which nvJPEG does not convert.
  const bool has_colours = info.component_count == 1 || info.component_count == 3;
  const bool is_small = std::uint64_t{info.width_px} * info.height_px <= kMostDevicePixels;
  const bool is_taken = (is_jpeg || holds_pixels(info)) && has_colours && !is_turned && is_small;
  if (!is_taken) return std::nullopt;
  const ops::CropBox& box = drawn.head.crop();
  const ops::ResizeWindow& resize = drawn.head.resize();
  cuda::Picture picture;
  picture.width_px = info.width_px;
  picture.height_px = info.height_px;
  picture.geometry.box_x_px = box.x_px;
  picture.geometry.box_y_px = box.y_px;
  picture.geometry.box_width_px = box.width_px;
  picture.geometry.box_height_px = box.height_px;
  picture.geometry.full_width_px = resize.full_width_px;
  picture.geometry.full_height_px = resize.full_height_px;
  picture.geometry.window_x_px = resize.x_px;
  picture.geometry.window_y_px = resize.y_px;
  picture.geometry.mirror_x = drawn.head.flip() ? 1 : 0;
  return picture;
}

DeviceDelivery::DeviceDelivery(DeviceChoice choice, const SlotShape& shape, std::size_t planned,
                               std::size_t limit, std::shared_ptr<storage::FallbackLog> fallbacks)
    : device_(std::move(choice.device)),
      host_node_(choice.host_node),
      planned_(planned),
      shape_(shape),
      fallbacks_(std::move(fallbacks)),
      upload_(cuda::BatchUpload::create(device_, planned, limit)),
      decoder_(std::move(choice.decoder)),
      decodes_(decoder_ != nullptr) {
  // Pictures are to take what batches leave.
  if (decoder_) upload_->reserve(shape_.indices_at, planned_);
}

std::shared_ptr<const void> DeviceDelivery::pin(std::span<std::byte> memory) const {
  if (host_node_ >= 0) {
    const auto placed = host::prefer_node(memory, host_node_);
    if (!placed) fallbacks_->add("batch slots lie anywhere: " + placed.error().message);
  }
  try {
    return upload_->pin(memory);
  } catch (const Error& error) {
    fallbacks_->add(std::string("batch slots are not pinned, so that copies to the GPU wait: ") +
                    error.what());
    return nullptr;
  }
}

void DeviceDelivery::stop_decoding(const std::string& why) {
  decodes_ = false;
  fallbacks_->add(
      "pictures are decoded on the CPU from now on, as the GPU has no memory for them: " + why);
}

DeviceDelivery::Decoded DeviceDelivery::decode(PendingBatch& batch,
                                               std::vector<std::size_t>& left) {
  std::vector<cuda::Picture> pictures;
  bool is_any = false;
  for (const DeviceInput::Place& place : batch.slot->device_input().places().first(batch.size)) {
    pictures.push_back(place.picture);
    is_any = is_any || place.picture.is_given();
  }
  if (!is_any) return nullptr;
  // One batch's pictures are used while the next one's are made: no more than two of them.
  upload_->wait_for_room(2);
  Decoded decoded;
  try {
    decoded = decoder_->decode(pictures);
  } catch (const cuda::DeviceMemoryError& error) {
    for (cuda::Picture& picture : pictures) picture.source = cuda::PixelSource::kNone;
    stop_decoding(error.what());
  }
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    cuda::Picture& kept = batch.slot->device_input().places()[i].picture;
    kept.source = pictures[i].source;
    if (kept.source == cuda::PixelSource::kCopy) pixel_bytes_ += kept.pixels.size();
    const bool is_left = kept.source == cuda::PixelSource::kNone && kept.is_given();
    if (is_left) left.push_back(i);
  }
  return decoded;
}

std::shared_ptr<cuda::BatchUpload::Slot> DeviceDelivery::take() {
  auto slot = upload_->try_acquire(shape_.indices_at);
  if (!slot) throw Error(ErrorCode::kUnsupported, starving_text());
  return slot;
}

/// Where the images of a batch of different sizes lie in its slot, one right behind the other, so
/// that with their sizes they are one jagged tensor; and behind them the labels.
std::vector<std::size_t> DeviceDelivery::offsets_of(const PendingBatch& batch,
                                                    std::size_t& bytes) const {
  std::vector<std::size_t> offsets;
  bytes = 0;
  for (std::size_t i = 0; i < batch.size; ++i) {
    offsets.push_back(bytes);
    bytes += bytes_of(shape_, batch.slot->image_size(i));
  }
  bytes = round_up(bytes, kLabelAlignment);
  offsets.push_back(bytes);
  return offsets;
}

/// What the host made of the batch; the slot's size in `bytes`.
std::vector<cuda::Piece> DeviceDelivery::pieces_of(const PendingBatch& batch,
                                                   std::size_t& bytes) const {
  BatchSlot& slot = *batch.slot;
  const std::size_t label_bytes = batch.size * sizeof(std::int64_t);
  std::vector<cuda::Piece> pieces;
  if (shape_.is_ragged) {
    const std::vector<std::size_t> offsets = offsets_of(batch, bytes);
    for (std::size_t i = 0; i < batch.size; ++i) {
      pieces.push_back({slot.ragged_image(i), bytes_of(shape_, slot.image_size(i)), offsets[i]});
    }
    pieces.push_back({slot.labels(), label_bytes, offsets.back()});
    bytes += label_bytes;
    return pieces;
  }
  bytes = shape_.indices_at;  // Numbers and flags, which lie behind the labels, are the host's.
  const auto places = slot.device_input().places();
  const bool has_images = shape_.image_bytes > 0 && !are_elsewhere(slot.shape());
  for (std::size_t i = 0; i < batch.size && has_images; ++i) {
    if (places[i].picture.source != cuda::PixelSource::kNone) continue;
    const std::size_t at = i * shape_.image_bytes;
    const bool follows = !pieces.empty() && pieces.back().at_bytes + pieces.back().bytes == at;
    if (follows) {
      pieces.back().bytes += shape_.image_bytes;
    } else {
      pieces.push_back({slot.image(i), shape_.image_bytes, at});
    }
  }
  pieces.push_back({slot.labels(), label_bytes, shape_.labels_at});
  return pieces;
}

void DeviceDelivery::count(const PendingBatch& batch) {
  const bool has_images = shape_.is_ragged || shape_.image_size.width_px > 0;
  const auto places = batch.slot->device_input().places();
  for (std::size_t i = 0; i < batch.size && has_images; ++i) {
    const bool is_blank = batch.slot->flags()[i] == SampleFlag::kBlank;
    switch (places[i].picture.source) {
      case cuda::PixelSource::kHardware:
        ++hardware_decoded_;
        break;
      case cuda::PixelSource::kSoftware:
        ++software_decoded_;
        break;
      case cuda::PixelSource::kCopy:
      case cuda::PixelSource::kThere:
        ++already_decoded_;
        break;
      case cuda::PixelSource::kNone:
        host_decoded_ += is_blank ? 0 : 1;
        break;
    }
  }
}

bool DeviceDelivery::upload(const std::shared_ptr<PendingBatch>& batch, Decoded decoded,
                            const std::stop_token& stop) {
  std::size_t bytes = 0;
  const std::vector<cuda::Piece> pieces = pieces_of(*batch, bytes);
  auto slot = batch->on_device ? batch->on_device : upload_->acquire(bytes, stop);
  if (!slot) return false;
  if (const std::string shrunk = upload_->shrunk(); shrunk != shrunk_) {
    fallbacks_->add(shrunk);
    shrunk_ = shrunk;
  }
  cuda::BatchUpload::Produce produce;
  if (decoded) {
    produce = [&](cuda::Stream& stream) { decoder_->pass(*decoded, slot->address(), stream); };
  }
  using Kept = std::pair<std::shared_ptr<BatchSlot>, Decoded>;
  upload_->fill(*slot, pieces, std::make_shared<Kept>(batch->slot, decoded), produce);
  batch->on_device = std::move(slot);
  return true;
}

Batch DeviceDelivery::wrap(Batch&& on_host, const PendingBatch& pending) {
  count(pending);
  // Where images come to the device by another way, there is a place there for each slot, so that
  // the pool of slots bounds both.
  const std::shared_ptr<const void> keep =
      are_elsewhere(pending.slot->shape()) ? pending.slot : nullptr;
  auto on_device = std::make_shared<OnDevice>(pending.on_device, on_host, keep);
  const int ordinal = device_->ordinal();
  std::size_t labels_at = shape_.labels_at;
  Batch batch(on_device);
  if (shape_.is_ragged) {
    std::size_t bytes = 0;
    const std::vector<std::size_t> offsets = offsets_of(pending, bytes);
    labels_at = bytes;
    batch.images = std::move(on_host.images);
    for (std::size_t i = 0; i < on_host.image_list.size(); ++i) {
      batch.image_list.push_back(
          moved(std::move(on_host.image_list[i]), on_device->at(offsets[i]), ordinal));
    }
  } else {
    const bool has_images = on_host.images.size_bytes() > 0;
    batch.images =
        moved(std::move(on_host.images), has_images ? on_device->at(0) : nullptr, ordinal);
  }
  batch.labels = moved(std::move(on_host.labels), on_device->at(labels_at), ordinal);
  batch.fields = std::move(on_host.fields);
  batch.indices = on_device->indices();
  batch.flags = on_device->flags();
  batch.epoch = on_host.epoch;
  batch.step = on_host.step;
  batch.position = on_host.position;
  batch.bad_samples = on_host.bad_samples;
  batch.epoch_bad_samples = on_host.epoch_bad_samples;
  batch.on_device = std::move(on_device);
  return batch;
}

std::string DeviceDelivery::starving_text() const {
  if (is_too_small()) {
    return upload_->shrunk() + "; use a smaller batch_size, or free memory of the GPU";
  }
  return fmt::format(
      "the caller holds {} batches on the GPU, and there is no room for another{}; drop batches, "
      "or "
      "raise memory_limit",
      upload_->slot_count(), upload_->shrunk().empty() ? "" : " (" + upload_->shrunk() + ")");
}

DeviceStats DeviceDelivery::stats() const {
  return {upload_->copied_bytes() + pixel_bytes_,
          hardware_decoded_,
          software_decoded_,
          host_decoded_,
          already_decoded_,
          upload_->slot_count()};
}

}  // namespace feedrace::pipeline
