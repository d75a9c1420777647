// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/device_delivery.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

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

/// Why batches of a pipeline can't be copied to a device; empty when they can.
std::string refusal_of(const Pipeline& pipeline) {
  if (pipeline.reads_only || pipeline.raw || pipeline.output_size()) return {};
  return "pictures of different sizes are delivered to the host's memory only; resize or crop them "
         "to one size, or take device=\"cpu\"";
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

}  // namespace

DeviceChoice choose_device(const LoaderOptions& options) {
  if (options.device == "cpu") return {nullptr, "cpu", {}};
  const bool is_auto = options.device == "auto";
  const std::optional<int> ordinal = is_auto ? std::optional(0) : ordinal_of(options.device);
  if (!ordinal) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("device is {:?}; it must be \"cpu\", \"cuda\", \"cuda:N\" or \"auto\"",
                            options.device));
  }
  std::string refusal = refusal_of(options.pipeline);
  if (refusal.empty()) {
    auto device = open_device(options, *ordinal);
    if (device) {
      return {*std::move(device), fmt::format("cuda:{}", *ordinal),
              is_auto ? "a GPU can be used" : ""};
    }
    refusal = device.error().message;
  }
  if (is_auto) return {nullptr, "cpu", "no GPU can be used: " + refusal};
  throw Error(ErrorCode::kUnsupported,
              fmt::format("device {:?} can't be had: {}", options.device, refusal));
}

DeviceDelivery::DeviceDelivery(std::shared_ptr<cuda::Device> device, const SlotShape& shape,
                               std::size_t planned, std::size_t limit,
                               std::shared_ptr<storage::FallbackLog> fallbacks)
    : device_(std::move(device)),
      shape_(shape),
      fallbacks_(std::move(fallbacks)),
      // Numbers and flags, which lie behind the labels, are the host's.
      upload_(cuda::BatchUpload::create(device_, shape.indices_at, planned, limit)) {}

std::shared_ptr<const void> DeviceDelivery::pin(std::span<std::byte> memory) const {
  try {
    return upload_->pin(memory);
  } catch (const Error& error) {
    fallbacks_->add(std::string("batch slots are not pinned, so that copies to the GPU wait: ") +
                    error.what());
    return nullptr;
  }
}

Batch DeviceDelivery::deliver(Batch&& on_host, std::shared_ptr<BatchSlot> slot,
                              std::shared_ptr<cuda::BatchUpload::Slot> filled) {
  const std::size_t image_bytes = on_host.images.size_bytes();
  const std::size_t label_bytes = on_host.labels.size_bytes();
  std::vector<cuda::Piece> pieces;
  if (image_bytes > 0 && !filled) pieces.push_back({on_host.images.data, image_bytes, 0});
  pieces.push_back({on_host.labels.data, label_bytes, shape_.labels_at});
  // One place on the device for each slot: so the pool of slots bounds both.
  const std::shared_ptr<const void> keep = filled ? slot : nullptr;
  if (filled) {
    upload_->complete(*filled, pieces, std::move(slot));
  } else {
    filled = upload_->upload(pieces, std::move(slot));
  }
  auto on_device = std::make_shared<OnDevice>(std::move(filled), on_host, keep);

  Batch batch(on_device);
  batch.images = moved(std::move(on_host.images), image_bytes > 0 ? on_device->at(0) : nullptr,
                       device_->ordinal());
  batch.labels =
      moved(std::move(on_host.labels), on_device->at(shape_.labels_at), device_->ordinal());
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

}  // namespace feedrace::pipeline
