// SPDX-License-Identifier: Apache-2.0
// libnvjpeg.so.13 on libjpeg-turbo, in the memory of the stub of libcuda. What it refuses, the real
// one refuses; work is put on the stream, and reads its input when the stream gets there.
#include <cuda.h>
#include <nvjpeg.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "feedrace/cuda/stubs/nvjpeg_stub_pixels.h"
#include "feedrace/cuda/stubs/stub_control.h"

using feedrace::nvjpeg_stub::cut;
using feedrace::nvjpeg_stub::Frame;
using feedrace::nvjpeg_stub::Pixels;
using feedrace::nvjpeg_stub::read_frame;
using feedrace::nvjpeg_stub::read_pixels;
using feedrace::nvjpeg_stub::Region;

namespace {

nvjpegStatus_t failure_of(const char* call) {
  return static_cast<nvjpegStatus_t>(feedrace_stub_failure(call));
}

// Each call fails if it is told to.
#define FEEDRACE_STUB_ENTER(name)                                                    \
  if (const nvjpegStatus_t told = failure_of(name); told != NVJPEG_STATUS_SUCCESS) { \
    return told;                                                                     \
  }

/// Runs the work when the stream gets to it.
template <typename Work>
nvjpegStatus_t put_on(cudaStream_t stream, Work work) {
  auto owned = std::make_unique<Work>(std::move(work));
  const auto run = [](void* argument) {
    const std::unique_ptr<Work> mine(static_cast<Work*>(argument));
    (*mine)();
  };
  if (cuLaunchHostFunc(stream, run, owned.get()) != CUDA_SUCCESS) {
    return NVJPEG_STATUS_EXECUTION_FAILED;
  }
  static_cast<void>(owned.release());
  return NVJPEG_STATUS_SUCCESS;
}

bool is_all_on_device(const nvjpegImage_t& image, unsigned width_px, unsigned height_px) {
  const std::size_t bytes = image.pitch[0] * (height_px - 1) + std::size_t{3} * width_px;
  return feedrace_stub_is_device_memory(image.channel[0], bytes) != 0;
}

void write_rows(const nvjpegImage_t& image, const unsigned char* rgb, unsigned width_px,
                unsigned height_px) {
  const std::size_t row_bytes = std::size_t{3} * width_px;
  for (unsigned y = 0; y < height_px; ++y) {
    std::memcpy(image.channel[0] + y * image.pitch[0], rgb + y * row_bytes, row_bytes);
  }
}

}  // namespace

// The types of nvJPEG's handles are declared in nvjpeg.h and ours to define.
struct nvjpegHandle {
  nvjpegBackend_t backend = NVJPEG_BACKEND_DEFAULT;
  unsigned flags = 0;
  nvjpegDevAllocatorV2_t device{};
  nvjpegPinnedAllocatorV2_t pinned{};
  std::size_t device_padding = 0;
  std::size_t pinned_padding = 0;
  void* own = nullptr;  // The real one holds a little of the device too.
};
struct nvjpegBufferPinned {
  nvjpegHandle* handle;
  nvjpegPinnedAllocatorV2_t calls;
  void* address = nullptr;
  std::size_t bytes = 0;
};
struct nvjpegBufferDevice {
  nvjpegHandle* handle;
  nvjpegDevAllocatorV2_t calls;
  void* address = nullptr;
  std::size_t bytes = 0;
};
struct nvjpegJpegStream {
  const unsigned char* bytes = nullptr;
  std::size_t size_bytes = 0;
  Frame frame;
};
struct nvjpegDecodeParams {
  Region region;
  nvjpegOutputFormat_t format = NVJPEG_OUTPUT_UNCHANGED;
};
struct nvjpegJpegDecoder {
  nvjpegBackend_t backend;
};
struct nvjpegJpegState {
  nvjpegHandle* handle;
  void* own = nullptr;
  nvjpegBufferPinned* pinned = nullptr;
  nvjpegBufferDevice* on_device = nullptr;
  unsigned width_px = 0;  // Of what the host phase left in `pinned`.
  unsigned height_px = 0;
  int batch_size = 0;
};

namespace {

std::size_t padded(std::size_t bytes, std::size_t padding) {
  return padding == 0 ? bytes : (bytes + padding - 1) / padding * padding;
}

/// Gives the buffer room; what was in it is lost.
nvjpegStatus_t make_room(nvjpegBufferPinned& buffer, std::size_t bytes, cudaStream_t stream) {
  if (bytes <= buffer.bytes) return NVJPEG_STATUS_SUCCESS;
  const nvjpegPinnedAllocatorV2_t& calls = buffer.calls;
  calls.pinned_free(calls.pinned_ctx, std::exchange(buffer.address, nullptr),
                    std::exchange(buffer.bytes, 0), stream);
  const std::size_t wanted = padded(bytes, buffer.handle->pinned_padding);
  void* made = nullptr;
  if (calls.pinned_malloc(calls.pinned_ctx, &made, wanted, stream) != 0) {
    return NVJPEG_STATUS_ALLOCATOR_FAILURE;
  }
  buffer.address = made;
  buffer.bytes = wanted;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t make_room(nvjpegBufferDevice& buffer, std::size_t bytes, cudaStream_t stream) {
  if (bytes <= buffer.bytes) return NVJPEG_STATUS_SUCCESS;
  const nvjpegDevAllocatorV2_t& calls = buffer.calls;
  calls.dev_free(calls.dev_ctx, std::exchange(buffer.address, nullptr),
                 std::exchange(buffer.bytes, 0), stream);
  const std::size_t wanted = padded(bytes, buffer.handle->device_padding);
  void* made = nullptr;
  if (calls.dev_malloc(calls.dev_ctx, &made, wanted, stream) != 0) {
    return NVJPEG_STATUS_ALLOCATOR_FAILURE;
  }
  buffer.address = made;
  buffer.bytes = wanted;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t allocate(const nvjpegHandle& handle, std::size_t bytes, void** address) {
  const nvjpegDevAllocatorV2_t& calls = handle.device;
  return calls.dev_malloc(calls.dev_ctx, address, bytes, nullptr) == 0
             ? NVJPEG_STATUS_SUCCESS
             : NVJPEG_STATUS_ALLOCATOR_FAILURE;
}

void release(const nvjpegHandle& handle, void* address) {
  if (address != nullptr) handle.device.dev_free(handle.device.dev_ctx, address, 0, nullptr);
}

nvjpegStatus_t make_state(nvjpegHandle_t handle, nvjpegJpegState_t* state) {
  auto made = std::make_unique<nvjpegJpegState>();
  made->handle = handle;
  const nvjpegStatus_t status = allocate(*handle, 4096, &made->own);
  if (status == NVJPEG_STATUS_SUCCESS) *state = made.release();
  return status;
}

bool is_hardware(nvjpegBackend_t backend) {
  return backend == NVJPEG_BACKEND_HARDWARE || backend == NVJPEG_BACKEND_HARDWARE_DEVICE;
}
bool reads_device(nvjpegBackend_t backend) {
  return backend == NVJPEG_BACKEND_GPU_HYBRID_DEVICE || backend == NVJPEG_BACKEND_HARDWARE_DEVICE;
}

/// What a back end takes.
bool takes(nvjpegBackend_t backend, const Frame& frame, const Region& region) {
  if (frame.bits != 8 || frame.component_count > 3 || frame.component_count == 2) return false;
  if (is_hardware(backend)) return frame.has_one_scan && frame.luma_x <= 2;  // Not 4:1:1, 4:1:0.
  const bool is_gpu = backend != NVJPEG_BACKEND_HYBRID;
  return !is_gpu || (frame.has_one_scan && region.width_px < 0);
}

/// One picture of a batched call. Its bytes are read when the stream gets there; only a header that
/// is wrong is seen before.
nvjpegStatus_t put_one(const nvjpegHandle& handle, const unsigned char* bytes,
                       std::size_t size_bytes, const nvjpegImage_t& image, const Region& region,
                       cudaStream_t stream) {
  const bool is_on_device = feedrace_stub_is_device_memory(bytes, size_bytes) != 0;
  if (is_on_device != reads_device(handle.backend)) return NVJPEG_STATUS_INVALID_PARAMETER;
  Frame frame;
  const nvjpegStatus_t status = read_frame(bytes, size_bytes, &frame);
  if (status != NVJPEG_STATUS_SUCCESS) return status;
  if (!takes(handle.backend, frame, region)) return NVJPEG_STATUS_JPEG_NOT_SUPPORTED;
  const bool is_all = region.width_px < 0;
  const unsigned width_px = is_all ? frame.width_px : static_cast<unsigned>(region.width_px);
  const unsigned height_px = is_all ? frame.height_px : static_cast<unsigned>(region.height_px);
  if (!is_all_on_device(image, width_px, height_px)) return NVJPEG_STATUS_EXECUTION_FAILED;
  if (is_hardware(handle.backend)) {
    // As on Hopper: the engine is at work before the stream gets there, from the top. One that it
    // does not get through is never written to its end.
    for (unsigned y = 0; y + 1 < height_px; ++y) {
      std::memset(image.channel[0] + y * image.pitch[0], 0xA5, std::size_t{3} * width_px);
    }
  }
  return put_on(stream, [=] {
    Pixels all;
    if (read_pixels(bytes, size_bytes, false, &all) != NVJPEG_STATUS_SUCCESS) return;
    const Pixels part = cut(all, region);
    write_rows(image, part.rgb.data(), part.width_px, part.height_px);
  });
}

}  // namespace

extern "C" {

nvjpegStatus_t nvjpegGetProperty(libraryPropertyType type, int* value) {
  FEEDRACE_STUB_ENTER("nvjpegGetProperty")
  const int part[] = {NVJPEG_VER_MAJOR, NVJPEG_VER_MINOR, NVJPEG_VER_PATCH};
  *value = part[type];
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegCreateExV2(nvjpegBackend_t backend, nvjpegDevAllocatorV2_t* device,
                                nvjpegPinnedAllocatorV2_t* pinned, unsigned flags,
                                nvjpegHandle_t* handle) {
  FEEDRACE_STUB_ENTER("nvjpegCreateExV2")
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) {
    return NVJPEG_STATUS_EXECUTION_FAILED;
  }
  auto made = std::make_unique<nvjpegHandle>();
  made->backend = backend;
  made->flags = flags;
  made->device = *device;
  made->pinned = *pinned;
  const nvjpegStatus_t status = allocate(*made, 256, &made->own);
  if (status == NVJPEG_STATUS_SUCCESS) *handle = made.release();
  return status;
}

nvjpegStatus_t nvjpegDestroy(nvjpegHandle_t handle) {
  FEEDRACE_STUB_ENTER("nvjpegDestroy")
  release(*handle, handle->own);
  delete handle;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegSetDeviceMemoryPadding(size_t padding, nvjpegHandle_t handle) {
  FEEDRACE_STUB_ENTER("nvjpegSetDeviceMemoryPadding")
  handle->device_padding = padding;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegSetPinnedMemoryPadding(size_t padding, nvjpegHandle_t handle) {
  FEEDRACE_STUB_ENTER("nvjpegSetPinnedMemoryPadding")
  handle->pinned_padding = padding;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegGetHardwareDecoderInfo(nvjpegHandle_t, unsigned* engines, unsigned* cores) {
  FEEDRACE_STUB_ENTER("nvjpegGetHardwareDecoderInfo")
  *engines = 1;
  *cores = 8;
  return NVJPEG_STATUS_SUCCESS;
}

// --- pictures and parameters
// ------------------------------------------------------------------------

nvjpegStatus_t nvjpegJpegStreamCreate(nvjpegHandle_t, nvjpegJpegStream_t* stream) {
  FEEDRACE_STUB_ENTER("nvjpegJpegStreamCreate")
  *stream = new nvjpegJpegStream;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegJpegStreamDestroy(nvjpegJpegStream_t stream) {
  FEEDRACE_STUB_ENTER("nvjpegJpegStreamDestroy")
  delete stream;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegJpegStreamParseHeader(nvjpegHandle_t, const unsigned char* bytes, size_t size,
                                           nvjpegJpegStream_t stream) {
  FEEDRACE_STUB_ENTER("nvjpegJpegStreamParseHeader")
  if (feedrace_stub_is_device_memory(bytes, size) != 0) return NVJPEG_STATUS_INVALID_PARAMETER;
  stream->bytes = nullptr;  // A header only: not to be decoded.
  stream->size_bytes = 0;
  return read_frame(bytes, size, &stream->frame);
}

nvjpegStatus_t nvjpegJpegStreamParse(nvjpegHandle_t, const unsigned char* bytes, size_t size, int,
                                     int, nvjpegJpegStream_t stream) {
  FEEDRACE_STUB_ENTER("nvjpegJpegStreamParse")
  if (feedrace_stub_is_device_memory(bytes, size) != 0) return NVJPEG_STATUS_INVALID_PARAMETER;
  stream->bytes = bytes;
  stream->size_bytes = size;
  return read_frame(bytes, size, &stream->frame);
}

nvjpegStatus_t nvjpegJpegStreamGetFrameDimensions(nvjpegJpegStream_t stream, unsigned* width_px,
                                                  unsigned* height_px) {
  FEEDRACE_STUB_ENTER("nvjpegJpegStreamGetFrameDimensions")
  *width_px = stream->frame.width_px;
  *height_px = stream->frame.height_px;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegJpegStreamGetComponentsNum(nvjpegJpegStream_t stream, unsigned* count) {
  FEEDRACE_STUB_ENTER("nvjpegJpegStreamGetComponentsNum")
  *count = stream->frame.component_count;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegJpegStreamGetJpegEncoding(nvjpegJpegStream_t stream,
                                               nvjpegJpegEncoding_t* encoding) {
  FEEDRACE_STUB_ENTER("nvjpegJpegStreamGetJpegEncoding")
  *encoding = stream->frame.is_progressive ? NVJPEG_ENCODING_PROGRESSIVE_DCT_HUFFMAN
                                           : NVJPEG_ENCODING_BASELINE_DCT;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegJpegStreamGetSamplePrecision(nvjpegJpegStream_t stream, unsigned* bits) {
  FEEDRACE_STUB_ENTER("nvjpegJpegStreamGetSamplePrecision")
  *bits = stream->frame.bits;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegDecodeParamsCreate(nvjpegHandle_t, nvjpegDecodeParams_t* params) {
  FEEDRACE_STUB_ENTER("nvjpegDecodeParamsCreate")
  *params = new nvjpegDecodeParams;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegDecodeParamsDestroy(nvjpegDecodeParams_t params) {
  FEEDRACE_STUB_ENTER("nvjpegDecodeParamsDestroy")
  delete params;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegDecodeParamsSetOutputFormat(nvjpegDecodeParams_t params,
                                                 nvjpegOutputFormat_t format) {
  FEEDRACE_STUB_ENTER("nvjpegDecodeParamsSetOutputFormat")
  params->format = format;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegDecodeParamsSetROI(nvjpegDecodeParams_t params, int x_px, int y_px,
                                        int width_px, int height_px) {
  FEEDRACE_STUB_ENTER("nvjpegDecodeParamsSetROI")
  params->region = {x_px, y_px, width_px, height_px};
  return NVJPEG_STATUS_SUCCESS;
}

// --- one picture, in three phases
// -------------------------------------------------------------------

nvjpegStatus_t nvjpegDecoderCreate(nvjpegHandle_t, nvjpegBackend_t backend,
                                   nvjpegJpegDecoder_t* decoder) {
  FEEDRACE_STUB_ENTER("nvjpegDecoderCreate")
  *decoder = new nvjpegJpegDecoder{backend};
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegDecoderDestroy(nvjpegJpegDecoder_t decoder) {
  FEEDRACE_STUB_ENTER("nvjpegDecoderDestroy")
  delete decoder;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegDecoderJpegSupported(nvjpegJpegDecoder_t decoder, nvjpegJpegStream_t stream,
                                          nvjpegDecodeParams_t params, int* is_supported) {
  FEEDRACE_STUB_ENTER("nvjpegDecoderJpegSupported")
  *is_supported = takes(decoder->backend, stream->frame, params->region) ? 0 : 1;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegDecoderStateCreate(nvjpegHandle_t handle, nvjpegJpegDecoder_t,
                                        nvjpegJpegState_t* state) {
  FEEDRACE_STUB_ENTER("nvjpegDecoderStateCreate")
  return make_state(handle, state);
}

nvjpegStatus_t nvjpegJpegStateCreate(nvjpegHandle_t handle, nvjpegJpegState_t* state) {
  FEEDRACE_STUB_ENTER("nvjpegJpegStateCreate")
  return make_state(handle, state);
}

nvjpegStatus_t nvjpegJpegStateDestroy(nvjpegJpegState_t state) {
  FEEDRACE_STUB_ENTER("nvjpegJpegStateDestroy")
  release(*state->handle, state->own);
  delete state;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegBufferPinnedCreateV2(nvjpegHandle_t handle, nvjpegPinnedAllocatorV2_t* calls,
                                          nvjpegBufferPinned_t* buffer) {
  FEEDRACE_STUB_ENTER("nvjpegBufferPinnedCreateV2")
  *buffer = new nvjpegBufferPinned{handle, *calls};
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegBufferPinnedDestroy(nvjpegBufferPinned_t buffer) {
  FEEDRACE_STUB_ENTER("nvjpegBufferPinnedDestroy")
  const nvjpegPinnedAllocatorV2_t& calls = buffer->calls;
  calls.pinned_free(calls.pinned_ctx, buffer->address, buffer->bytes, nullptr);
  delete buffer;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegBufferDeviceCreateV2(nvjpegHandle_t handle, nvjpegDevAllocatorV2_t* calls,
                                          nvjpegBufferDevice_t* buffer) {
  FEEDRACE_STUB_ENTER("nvjpegBufferDeviceCreateV2")
  *buffer = new nvjpegBufferDevice{handle, *calls};
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegBufferDeviceDestroy(nvjpegBufferDevice_t buffer) {
  FEEDRACE_STUB_ENTER("nvjpegBufferDeviceDestroy")
  const nvjpegDevAllocatorV2_t& calls = buffer->calls;
  calls.dev_free(calls.dev_ctx, buffer->address, buffer->bytes, nullptr);
  delete buffer;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegStateAttachPinnedBuffer(nvjpegJpegState_t state, nvjpegBufferPinned_t buffer) {
  FEEDRACE_STUB_ENTER("nvjpegStateAttachPinnedBuffer")
  state->pinned = buffer;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegStateAttachDeviceBuffer(nvjpegJpegState_t state, nvjpegBufferDevice_t buffer) {
  FEEDRACE_STUB_ENTER("nvjpegStateAttachDeviceBuffer")
  state->on_device = buffer;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegDecodeJpegHost(nvjpegHandle_t handle, nvjpegJpegDecoder_t decoder,
                                    nvjpegJpegState_t state, nvjpegDecodeParams_t params,
                                    nvjpegJpegStream_t stream) {
  FEEDRACE_STUB_ENTER("nvjpegDecodeJpegHost")
  if (stream->bytes == nullptr || params->format != NVJPEG_OUTPUT_RGBI) {
    return NVJPEG_STATUS_INVALID_PARAMETER;
  }
  if (!takes(decoder->backend, stream->frame, params->region)) {
    return NVJPEG_STATUS_JPEG_NOT_SUPPORTED;
  }
  const bool is_strict = (handle->flags & (NVJPEG_FLAGS_BITSTREAM_STRICT)) != 0;
  Pixels all;
  nvjpegStatus_t status = read_pixels(stream->bytes, stream->size_bytes, is_strict, &all);
  if (status != NVJPEG_STATUS_SUCCESS) return status;
  const Pixels part = cut(all, params->region);
  status = make_room(*state->pinned, part.rgb.size(), nullptr);
  if (status != NVJPEG_STATUS_SUCCESS) return status;
  std::memcpy(state->pinned->address, part.rgb.data(), part.rgb.size());
  state->width_px = part.width_px;
  state->height_px = part.height_px;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegDecodeJpegTransferToDevice(nvjpegHandle_t, nvjpegJpegDecoder_t,
                                                nvjpegJpegState_t state, nvjpegJpegStream_t,
                                                cudaStream_t stream) {
  FEEDRACE_STUB_ENTER("nvjpegDecodeJpegTransferToDevice")
  const std::size_t bytes = std::size_t{3} * state->width_px * state->height_px;
  const nvjpegStatus_t status = make_room(*state->on_device, bytes, stream);
  if (status != NVJPEG_STATUS_SUCCESS) return status;
  return put_on(stream, [to = state->on_device->address, from = state->pinned->address, bytes] {
    std::memcpy(to, from, bytes);
  });
}

nvjpegStatus_t nvjpegDecodeJpegDevice(nvjpegHandle_t, nvjpegJpegDecoder_t, nvjpegJpegState_t state,
                                      nvjpegImage_t* image, cudaStream_t stream) {
  FEEDRACE_STUB_ENTER("nvjpegDecodeJpegDevice")
  if (!is_all_on_device(*image, state->width_px, state->height_px)) {
    return NVJPEG_STATUS_EXECUTION_FAILED;
  }
  return put_on(stream, [to = *image, from = state->on_device->address, width_px = state->width_px,
                         height_px = state->height_px] {
    write_rows(to, static_cast<const unsigned char*>(from), width_px, height_px);
  });
}

// --- a batch in one call
// ----------------------------------------------------------------------------

nvjpegStatus_t nvjpegDecodeBatchedPreAllocate(nvjpegHandle_t handle, nvjpegJpegState_t state,
                                              int batch_size, int width_px, int height_px,
                                              nvjpegChromaSubsampling_t, nvjpegOutputFormat_t) {
  FEEDRACE_STUB_ENTER("nvjpegDecodeBatchedPreAllocate")
  release(*handle, std::exchange(state->own, nullptr));
  const std::size_t bytes = std::size_t{3} * static_cast<std::size_t>(batch_size) *
                            static_cast<std::size_t>(width_px) *
                            static_cast<std::size_t>(height_px);
  return allocate(*handle, bytes, &state->own);
}

nvjpegStatus_t nvjpegDecodeBatchedSupportedEx(nvjpegHandle_t handle, nvjpegJpegStream_t stream,
                                              nvjpegDecodeParams_t params, int* is_supported) {
  FEEDRACE_STUB_ENTER("nvjpegDecodeBatchedSupportedEx")
  *is_supported = takes(handle->backend, stream->frame, params->region) ? 0 : 1;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegDecodeBatchedInitialize(nvjpegHandle_t, nvjpegJpegState_t state,
                                             int batch_size, int, nvjpegOutputFormat_t format) {
  FEEDRACE_STUB_ENTER("nvjpegDecodeBatchedInitialize")
  if (batch_size <= 0 || format != NVJPEG_OUTPUT_RGBI) return NVJPEG_STATUS_INVALID_PARAMETER;
  state->batch_size = batch_size;
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t nvjpegDecodeBatchedEx(nvjpegHandle_t handle, nvjpegJpegState_t state,
                                     const unsigned char* const* bytes, const size_t* sizes,
                                     nvjpegImage_t* images, nvjpegDecodeParams_t* params,
                                     cudaStream_t stream) {
  FEEDRACE_STUB_ENTER("nvjpegDecodeBatchedEx")
  for (int i = 0; i < state->batch_size; ++i) {
    // What was put before a picture that fails stays on its way.
    const nvjpegStatus_t status =
        put_one(*handle, bytes[i], sizes[i], images[i], params[i]->region, stream);
    if (status != NVJPEG_STATUS_SUCCESS) return status;
  }
  return NVJPEG_STATUS_SUCCESS;
}

}  // extern "C"
