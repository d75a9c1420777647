// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nvjpeg.h>

#include <string>
#include <utility>
#include <vector>

#include "feedrace/cuda/plugin/library.h"
#include "feedrace/cuda/plugin_abi.h"

namespace feedrace::cuda_plugin {

// Every call of nvJPEG that we make.
#define FEEDRACE_JPEG_CALLS(CALL)          \
  CALL(nvjpegGetProperty)                  \
  CALL(nvjpegCreateExV2)                   \
  CALL(nvjpegDestroy)                      \
  CALL(nvjpegSetDeviceMemoryPadding)       \
  CALL(nvjpegSetPinnedMemoryPadding)       \
  CALL(nvjpegGetHardwareDecoderInfo)       \
  CALL(nvjpegJpegStateCreate)              \
  CALL(nvjpegJpegStateDestroy)             \
  CALL(nvjpegJpegStreamCreate)             \
  CALL(nvjpegJpegStreamDestroy)            \
  CALL(nvjpegJpegStreamParse)              \
  CALL(nvjpegJpegStreamParseHeader)        \
  CALL(nvjpegJpegStreamGetFrameDimensions) \
  CALL(nvjpegJpegStreamGetComponentsNum)   \
  CALL(nvjpegJpegStreamGetJpegEncoding)    \
  CALL(nvjpegJpegStreamGetSamplePrecision) \
  CALL(nvjpegDecodeParamsCreate)           \
  CALL(nvjpegDecodeParamsDestroy)          \
  CALL(nvjpegDecodeParamsSetOutputFormat)  \
  CALL(nvjpegDecodeParamsSetROI)           \
  CALL(nvjpegDecoderCreate)                \
  CALL(nvjpegDecoderDestroy)               \
  CALL(nvjpegDecoderStateCreate)           \
  CALL(nvjpegDecoderJpegSupported)         \
  CALL(nvjpegBufferPinnedCreateV2)         \
  CALL(nvjpegBufferPinnedDestroy)          \
  CALL(nvjpegBufferDeviceCreateV2)         \
  CALL(nvjpegBufferDeviceDestroy)          \
  CALL(nvjpegStateAttachPinnedBuffer)      \
  CALL(nvjpegStateAttachDeviceBuffer)      \
  CALL(nvjpegDecodeJpegHost)               \
  CALL(nvjpegDecodeJpegTransferToDevice)   \
  CALL(nvjpegDecodeJpegDevice)             \
  CALL(nvjpegDecodeBatchedInitialize)      \
  CALL(nvjpegDecodeBatchedPreAllocate)     \
  CALL(nvjpegDecodeBatchedSupportedEx)     \
  CALL(nvjpegDecodeBatchedEx)

/// nvJPEG, opened by name.
struct JpegLibrary {
  explicit JpegLibrary(const std::vector<std::string>& folders);

  Library library;
  /// Empty when it can be used; else why not, and what to do.
  std::string missing;
  std::string remedy;
  std::string version;  ///< "13.0.4".

#define FEEDRACE_JPEG_MEMBER(name) decltype(&::name) name = nullptr;
  FEEDRACE_JPEG_CALLS(FEEDRACE_JPEG_MEMBER)
#undef FEEDRACE_JPEG_MEMBER
};

/// What the caller can do about a status of nvJPEG.
feedrace_cuda_status meaning_of(nvjpegStatus_t status) noexcept;
/// "status 5 (NVJPEG_STATUS_ALLOCATOR_FAILURE: memory was refused)"
std::string text_of(nvjpegStatus_t status);
/// What to do about it.
const char* remedy_of(nvjpegStatus_t status) noexcept;
/// Throws Refusal unless it is success; `what` says what was called on what.
void check(nvjpegStatus_t status, const std::string& what);

/// One object of nvJPEG, given back by its own call when this ends.
template <typename Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(const JpegLibrary& library, Handle handle) noexcept : library_(&library), handle_(handle) {}
  Owned(Owned&& other) noexcept
      : library_(other.library_), handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle_ != nullptr) (library_->*Destroy)(handle_);
  }

  Handle get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  const JpegLibrary* library_ = nullptr;
  Handle handle_ = nullptr;
};

using JpegHandle = Owned<nvjpegHandle_t, &JpegLibrary::nvjpegDestroy>;
using JpegState = Owned<nvjpegJpegState_t, &JpegLibrary::nvjpegJpegStateDestroy>;
using JpegHeader = Owned<nvjpegJpegStream_t, &JpegLibrary::nvjpegJpegStreamDestroy>;
using JpegParams = Owned<nvjpegDecodeParams_t, &JpegLibrary::nvjpegDecodeParamsDestroy>;
using JpegDecoder = Owned<nvjpegJpegDecoder_t, &JpegLibrary::nvjpegDecoderDestroy>;
using PinnedBuffer = Owned<nvjpegBufferPinned_t, &JpegLibrary::nvjpegBufferPinnedDestroy>;
using DeviceBuffer = Owned<nvjpegBufferDevice_t, &JpegLibrary::nvjpegBufferDeviceDestroy>;

/// A new header that pictures are parsed into; throws Refusal.
JpegHeader make_header(const JpegLibrary& library, nvjpegHandle_t handle);
/// New parameters: interleaved RGB; throws Refusal.
JpegParams make_params(const JpegLibrary& library, nvjpegHandle_t handle);

}  // namespace feedrace::cuda_plugin
