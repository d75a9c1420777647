// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "feedrace/cuda/plugin/decoder_parts.h"

namespace feedrace::cuda_plugin {

SoftwareDecoder::SoftwareDecoder(const DecoderBase& base) : base_(base) {
  std::string why;
  handle_ = make_handle(base_, NVJPEG_BACKEND_HYBRID, &why);
  if (!handle_) throw Refusal(FEEDRACE_CUDA_UNSUPPORTED, why);
  nvjpegJpegDecoder_t made = nullptr;
  base_.check(base_.library.nvjpegDecoderCreate(handle_.get(), NVJPEG_BACKEND_HYBRID, &made),
              "nvjpegDecoderCreate (HYBRID)");
  hybrid_ = JpegDecoder(base_.library, made);
  made = nullptr;
  // It only makes large pictures faster.
  if (base_.library.nvjpegDecoderCreate(handle_.get(), NVJPEG_BACKEND_GPU_HYBRID, &made) ==
      NVJPEG_STATUS_SUCCESS) {
    gpu_hybrid_ = JpegDecoder(base_.library, made);
  }
  params_ = make_params(base_.library, handle_.get());
  for (std::optional<Slot>& slot : slots_) fill(slot.emplace(base_.device));
}

SoftwareDecoder::~SoftwareDecoder() {
  // What the device still reads must not go away under it.
  for (std::optional<Slot>& slot : slots_) {
    if (slot) static_cast<void>(guarded(nullptr, [&] { slot->done.wait(); }));
  }
}

void SoftwareDecoder::fill(Slot& slot) {
  nvjpegBufferPinned_t pinned = nullptr;
  base_.check(
      base_.library.nvjpegBufferPinnedCreateV2(handle_.get(), base_.memory.pinned_calls(), &pinned),
      "nvjpegBufferPinnedCreateV2");
  slot.pinned = PinnedBuffer(base_.library, pinned);
  nvjpegBufferDevice_t on_device = nullptr;
  base_.check(base_.library.nvjpegBufferDeviceCreateV2(handle_.get(), base_.memory.device_calls(),
                                                       &on_device),
              "nvjpegBufferDeviceCreateV2");
  slot.on_device = DeviceBuffer(base_.library, on_device);
  slot.header = make_header(base_.library, handle_.get());
  slot.hybrid = make_state(hybrid_, slot);
  if (gpu_hybrid_) slot.gpu_hybrid = make_state(gpu_hybrid_, slot);
}

JpegState SoftwareDecoder::make_state(const JpegDecoder& decoder, const Slot& slot) const {
  nvjpegJpegState_t made = nullptr;
  base_.check(base_.library.nvjpegDecoderStateCreate(handle_.get(), decoder.get(), &made),
              "nvjpegDecoderStateCreate");
  JpegState state(base_.library, made);
  base_.check(base_.library.nvjpegStateAttachPinnedBuffer(made, slot.pinned.get()),
              "nvjpegStateAttachPinnedBuffer");
  base_.check(base_.library.nvjpegStateAttachDeviceBuffer(made, slot.on_device.get()),
              "nvjpegStateAttachDeviceBuffer");
  return state;
}

bool SoftwareDecoder::supports(const JpegDecoder& decoder, const Slot& slot) const {
  int answer = 1;  // 0 is yes.
  return base_.library.nvjpegDecoderJpegSupported(decoder.get(), slot.header.get(), params_.get(),
                                                  &answer) == NVJPEG_STATUS_SUCCESS &&
         answer == 0;
}

feedrace_cuda_status SoftwareDecoder::decode(const feedrace_cuda_jpeg& jpeg, bool is_all,
                                             bool is_large_baseline, CUstream stream) {
  Slot& slot = *slots_[next_slot_];
  next_slot_ = (next_slot_ + 1) % kSlotCount;
  slot.done.wait();
  nvjpegStatus_t status = base_.library.nvjpegJpegStreamParse(
      handle_.get(), static_cast<const unsigned char*>(jpeg.bytes), jpeg.size_bytes, 0, 0,
      slot.header.get());
  if (status != NVJPEG_STATUS_SUCCESS) return refusal_of(base_, status, "nvjpegJpegStreamParse");
  status = set_region(base_.library, params_.get(), jpeg, is_all);
  if (status != NVJPEG_STATUS_SUCCESS) return refusal_of(base_, status, "nvjpegDecodeParamsSetROI");
  const bool on_gpu = is_large_baseline && gpu_hybrid_ && supports(gpu_hybrid_, slot);
  if (!on_gpu && !supports(hybrid_, slot)) return FEEDRACE_CUDA_UNSUPPORTED;
  status = run(slot, on_gpu, jpeg, stream);
  // After a failure as well: a part may be on its way. A device that is lost says so here.
  slot.done.record(stream);
  return status == NVJPEG_STATUS_SUCCESS ? FEEDRACE_CUDA_OK
                                         : refusal_of(base_, status, "nvjpegDecodeJpeg");
}

nvjpegStatus_t SoftwareDecoder::run(Slot& slot, bool on_gpu, const feedrace_cuda_jpeg& jpeg,
                                    CUstream stream) {
  const nvjpegJpegDecoder_t decoder = (on_gpu ? gpu_hybrid_ : hybrid_).get();
  const nvjpegJpegState_t state = (on_gpu ? slot.gpu_hybrid : slot.hybrid).get();
  const JpegLibrary& library = base_.library;
  nvjpegStatus_t status =
      library.nvjpegDecodeJpegHost(handle_.get(), decoder, state, params_.get(), slot.header.get());
  if (status != NVJPEG_STATUS_SUCCESS) return status;
  status = library.nvjpegDecodeJpegTransferToDevice(handle_.get(), decoder, state,
                                                    slot.header.get(), stream);
  if (status != NVJPEG_STATUS_SUCCESS) return status;
  nvjpegImage_t image = image_of(jpeg);
  return library.nvjpegDecodeJpegDevice(handle_.get(), decoder, state, &image, stream);
}

}  // namespace feedrace::cuda_plugin
