// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/decoder_parts.h"

#include <fmt/format.h>

namespace feedrace::cuda_plugin {
namespace {

// Buffers grow in steps of this, so that after a few pictures none grows: growing waits for the
// device.
constexpr std::size_t kPaddingBytes = std::size_t{1} << 20U;

// The macros of nvjpeg.h have no brackets of their own. Interpolated chroma is what the CPU gives;
// a strict parser leaves to the CPU what is not quite a JPEG.
constexpr unsigned kInterpolate = NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION;
constexpr unsigned kStrict = NVJPEG_FLAGS_BITSTREAM_STRICT;

const char* name_of(nvjpegBackend_t backend) {
  switch (backend) {
    case NVJPEG_BACKEND_HARDWARE:
      return "HARDWARE";
    case NVJPEG_BACKEND_HARDWARE_DEVICE:
      return "HARDWARE_DEVICE";
    case NVJPEG_BACKEND_GPU_HYBRID_DEVICE:
      return "GPU_HYBRID_DEVICE";
    default:
      return "HYBRID";
  }
}

/// Of a back end that this device or library does not have; 6 is what one without a device says.
bool means_absent(nvjpegStatus_t status) {
  return status == NVJPEG_STATUS_ARCH_MISMATCH || status == NVJPEG_STATUS_EXECUTION_FAILED ||
         status == NVJPEG_STATUS_INTERNAL_ERROR ||
         status == NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED;
}

}  // namespace

Mark::Mark(const feedrace_cuda_device& device) : device_(device) {
  cuda_plugin::check(device.driver, device.driver.cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING),
                     "cuEventCreate on " + device.name);
}

Mark::~Mark() { device_.driver.cuEventDestroy(event_); }

void Mark::record(CUstream stream) {
  cuda_plugin::check(device_.driver, device_.driver.cuEventRecord(event_, stream),
                     "cuEventRecord of a decoder on " + device_.name);
  is_recorded_ = true;
}

void Mark::wait() {
  if (!is_recorded_) return;
  cuda_plugin::check(device_.driver, device_.driver.cuEventSynchronize(event_),
                     "cuEventSynchronize of a decoder on " + device_.name);
  is_recorded_ = false;
}

void Mark::make_wait(CUstream stream) const {
  cuda_plugin::check(device_.driver, device_.driver.cuStreamWaitEvent(stream, event_, 0),
                     "cuStreamWaitEvent of a decoder on " + device_.name);
}

void DecoderBase::check(nvjpegStatus_t status, const char* call) const {
  const std::string what = fmt::format("{} on {}", call, device.name);
  if (meaning_of(status) == FEEDRACE_CUDA_NO_MEMORY) {
    throw Refusal(FEEDRACE_CUDA_NO_MEMORY, fmt::format("{}: {}; {}: {}", what, text_of(status),
                                                       memory.describe(), remedy_of(status)));
  }
  cuda_plugin::check(status, what);
}

JpegHandle make_handle(const DecoderBase& base, nvjpegBackend_t backend, std::string* why) {
  const unsigned flags = backend == NVJPEG_BACKEND_HYBRID ? kInterpolate | kStrict : kInterpolate;
  const auto create = [&](unsigned wanted, nvjpegHandle_t* made) {
    return base.library.nvjpegCreateExV2(backend, base.memory.device_calls(),
                                         base.memory.pinned_calls(), wanted, made);
  };
  nvjpegHandle_t made = nullptr;
  nvjpegStatus_t status = create(flags, &made);
  // Not every back end knows every flag.
  if (status == NVJPEG_STATUS_INVALID_PARAMETER) status = create(NVJPEG_FLAGS_DEFAULT, &made);
  const std::string call = fmt::format("nvjpegCreateExV2 ({})", name_of(backend));
  if (means_absent(status)) {
    *why =
        fmt::format("{} on {}: {}; {}", call, base.device.name, text_of(status), remedy_of(status));
    return {};
  }
  base.check(status, call.c_str());
  JpegHandle handle(base.library, made);
  base.check(base.library.nvjpegSetDeviceMemoryPadding(kPaddingBytes, made),
             "nvjpegSetDeviceMemoryPadding");
  base.check(base.library.nvjpegSetPinnedMemoryPadding(kPaddingBytes, made),
             "nvjpegSetPinnedMemoryPadding");
  return handle;
}

std::optional<EngineFacts> engines_of(const DecoderBase& base, nvjpegHandle_t hardware,
                                      std::string* why) {
  EngineFacts facts;
  const nvjpegStatus_t status =
      base.library.nvjpegGetHardwareDecoderInfo(hardware, &facts.engines, &facts.cores);
  if (status != NVJPEG_STATUS_SUCCESS) {
    *why = fmt::format("nvjpegGetHardwareDecoderInfo on {}: {}; {}", base.device.name,
                       text_of(status), remedy_of(status));
    return std::nullopt;
  }
  if (facts.engines == 0) {
    *why = fmt::format("{} has no JPEG engine; leave it out: hardware_share 0", base.device.name);
    return std::nullopt;
  }
  return facts;
}

nvjpegStatus_t set_region(const JpegLibrary& library, nvjpegDecodeParams_t params,
                          const feedrace_cuda_jpeg& jpeg, bool is_all) {
  if (is_all) return library.nvjpegDecodeParamsSetROI(params, 0, 0, -1, -1);
  return library.nvjpegDecodeParamsSetROI(
      params, static_cast<int>(jpeg.region_x_px), static_cast<int>(jpeg.region_y_px),
      static_cast<int>(jpeg.output.width_px), static_cast<int>(jpeg.output.height_px));
}

nvjpegImage_t image_of(const feedrace_cuda_jpeg& jpeg) noexcept {
  nvjpegImage_t image{};
  image.channel[0] = reinterpret_cast<unsigned char*>(jpeg.output.address);
  image.pitch[0] = static_cast<std::size_t>(jpeg.output.row_bytes);
  return image;
}

feedrace_cuda_status refusal_of(const DecoderBase& base, nvjpegStatus_t status, const char* call) {
  const feedrace_cuda_status meaning = meaning_of(status);
  const bool is_ours = meaning == FEEDRACE_CUDA_NO_MEMORY || meaning == FEEDRACE_CUDA_INVALID;
  if (is_ours) base.check(status, call);
  return meaning;
}

BatchDecoder::Stream::Stream(const feedrace_cuda_device& owner) : device(owner) {
  cuda_plugin::check(device.driver,
                     device.driver.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
                     "cuStreamCreate of a decoder on " + device.name);
}

BatchDecoder::Stream::~Stream() { device.driver.cuStreamDestroy(stream); }

BatchDecoder::BatchDecoder(const DecoderBase& base, JpegHandle handle,
                           const feedrace_cuda_decoder_options& options)
    : base_(base),
      handle_(std::move(handle)),
      stream_(base.device),
      before_(base.device),
      done_(base.device) {
  nvjpegJpegState_t made = nullptr;
  base_.check(base_.library.nvjpegJpegStateCreate(handle_.get(), &made), "nvjpegJpegStateCreate");
  state_ = JpegState(base_.library, made);
  // 4:4:4 needs the most.
  base_.check(base_.library.nvjpegDecodeBatchedPreAllocate(
                  handle_.get(), made, static_cast<int>(options.max_batch),
                  static_cast<int>(options.max_width_px), static_cast<int>(options.max_height_px),
                  NVJPEG_CSS_444, NVJPEG_OUTPUT_RGBI),
              "nvjpegDecodeBatchedPreAllocate");
  for (std::uint32_t i = 0; i < options.max_batch; ++i) {
    params_.push_back(make_params(base_.library, handle_.get()));
  }
}

bool BatchDecoder::takes(nvjpegJpegStream_t header, const feedrace_cuda_jpeg& jpeg,
                         std::size_t index, bool is_all) {
  const nvjpegDecodeParams_t params = params_[index].get();
  int answer = 1;  // 0 is yes.
  return set_region(base_.library, params, jpeg, is_all) == NVJPEG_STATUS_SUCCESS &&
         base_.library.nvjpegDecodeBatchedSupportedEx(handle_.get(), header, params, &answer) ==
             NVJPEG_STATUS_SUCCESS &&
         answer == 0;
}

nvjpegStatus_t BatchDecoder::submit(std::span<const feedrace_cuda_jpeg> jpegs,
                                    std::span<const std::size_t> indexes, bool is_on_device,
                                    CUstream caller) {
  std::vector<const unsigned char*> bytes;
  std::vector<std::size_t> sizes;
  std::vector<nvjpegImage_t> images;
  std::vector<nvjpegDecodeParams_t> params;
  for (const std::size_t index : indexes) {
    const feedrace_cuda_jpeg& jpeg = jpegs[index];
    bytes.push_back(is_on_device ? reinterpret_cast<const unsigned char*>(jpeg.device_bytes)
                                 : static_cast<const unsigned char*>(jpeg.bytes));
    sizes.push_back(jpeg.size_bytes);
    images.push_back(image_of(jpeg));
    params.push_back(params_[index].get());
  }
  before_.record(caller);
  before_.wait();
  done_.wait();  // The state's buffers may still be read for the call before, of another stream.
  nvjpegStatus_t status = base_.library.nvjpegDecodeBatchedInitialize(
      handle_.get(), state_.get(), static_cast<int>(indexes.size()), 1, NVJPEG_OUTPUT_RGBI);
  if (status == NVJPEG_STATUS_SUCCESS) {
    status =
        base_.library.nvjpegDecodeBatchedEx(handle_.get(), state_.get(), bytes.data(), sizes.data(),
                                            images.data(), params.data(), stream_.stream);
  }
  // After a failure as well: some of the pictures may be on their way.
  done_.record(stream_.stream);
  return status;
}

void BatchDecoder::settle() noexcept { base_.device.driver.cuStreamSynchronize(stream_.stream); }

}  // namespace feedrace::cuda_plugin
