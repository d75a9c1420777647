// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/decoder_library.h"

#include <array>

#include <fmt/format.h>

#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {
namespace {

struct Meaning {
  nvjpegStatus_t status;
  const char* name;
  const char* text;
  const char* remedy;
  feedrace_cuda_status reaction;
};

constexpr const char* kReport = "please report it with what `feedrace gpu-info` says";

constexpr std::array kMeanings = {
    Meaning{NVJPEG_STATUS_NOT_INITIALIZED, "NVJPEG_STATUS_NOT_INITIALIZED",
            "an object was not made before its use", kReport, FEEDRACE_CUDA_INVALID},
    Meaning{NVJPEG_STATUS_INVALID_PARAMETER, "NVJPEG_STATUS_INVALID_PARAMETER",
            "an argument is wrong", kReport, FEEDRACE_CUDA_INVALID},
    Meaning{NVJPEG_STATUS_BAD_JPEG, "NVJPEG_STATUS_BAD_JPEG", "the bytes are no JPEG, or damaged",
            "decode the picture on the CPU, or set on_error", FEEDRACE_CUDA_BAD_DATA},
    Meaning{NVJPEG_STATUS_JPEG_NOT_SUPPORTED, "NVJPEG_STATUS_JPEG_NOT_SUPPORTED",
            "the back end does not take this kind of JPEG", "decode the picture on the CPU",
            FEEDRACE_CUDA_UNSUPPORTED},
    Meaning{
        NVJPEG_STATUS_ALLOCATOR_FAILURE, "NVJPEG_STATUS_ALLOCATOR_FAILURE", "memory was refused",
        "free memory of the device, or lower prefetch_factor, batch_size or the largest picture",
        FEEDRACE_CUDA_NO_MEMORY},
    Meaning{NVJPEG_STATUS_EXECUTION_FAILED, "NVJPEG_STATUS_EXECUTION_FAILED",
            "the device did not do the work",
            "see nvidia-smi and dmesg for Xid; decode on the CPU meanwhile",
            FEEDRACE_CUDA_UNSUPPORTED},
    Meaning{NVJPEG_STATUS_ARCH_MISMATCH, "NVJPEG_STATUS_ARCH_MISMATCH",
            "the device has no such engine", "leave the hardware engine out: hardware_share 0",
            FEEDRACE_CUDA_UNSUPPORTED},
    Meaning{NVJPEG_STATUS_INTERNAL_ERROR, "NVJPEG_STATUS_INTERNAL_ERROR",
            "an error inside of the library", "decode on the CPU; try another nvidia-nvjpeg",
            FEEDRACE_CUDA_UNSUPPORTED},
    Meaning{NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED,
            "NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED", "this library has no such back end",
            "install a newer nvidia-nvjpeg, or decode on the CPU", FEEDRACE_CUDA_UNSUPPORTED},
    Meaning{NVJPEG_STATUS_INCOMPLETE_BITSTREAM, "NVJPEG_STATUS_INCOMPLETE_BITSTREAM",
            "the JPEG ends too early", "decode the picture on the CPU, or set on_error",
            FEEDRACE_CUDA_BAD_DATA},
};

constexpr Meaning kUnknown{NVJPEG_STATUS_SUCCESS, "unknown to this build", "a newer library's",
                           "install nvidia-nvjpeg 13, for which this is built",
                           FEEDRACE_CUDA_UNSUPPORTED};

const Meaning& find_meaning(nvjpegStatus_t status) noexcept {
  for (const Meaning& meaning : kMeanings) {
    if (meaning.status == status) return meaning;
  }
  return kUnknown;
}

template <typename Call>
void find(const Library& library, const char* name, Call& call, std::string& lacking) {
  call = reinterpret_cast<Call>(library.symbol(name));
  if (call == nullptr) lacking += (lacking.empty() ? "" : ", ") + std::string(name);
}

std::string version_of(const JpegLibrary& library) {
  int part[3] = {0, 0, 0};
  library.nvjpegGetProperty(MAJOR_VERSION, &part[0]);
  library.nvjpegGetProperty(MINOR_VERSION, &part[1]);
  library.nvjpegGetProperty(PATCH_LEVEL, &part[2]);
  return fmt::format("{}.{}.{}", part[0], part[1], part[2]);
}

}  // namespace

JpegLibrary::JpegLibrary(const std::vector<std::string>& folders)
    : library("libnvjpeg.so.13", folders) {
  if (!library) {
    missing = "libnvjpeg.so.13 is not there: " + library.failure();
    remedy =
        "pip install nvidia-nvjpeg, and name its folder (site-packages/nvidia/cu13/lib) by "
        "--cuda-libraries or LD_LIBRARY_PATH";
    return;
  }
  std::string lacking;
#define FEEDRACE_FIND(name) find(library, #name, name, lacking);
  FEEDRACE_JPEG_CALLS(FEEDRACE_FIND)
#undef FEEDRACE_FIND
  if (!lacking.empty()) {
    missing = library.path() + " lacks " + lacking;
    remedy = "install nvidia-nvjpeg 13.0 or newer";
    return;
  }
  version = version_of(*this);
}

feedrace_cuda_status meaning_of(nvjpegStatus_t status) noexcept {
  return status == NVJPEG_STATUS_SUCCESS ? FEEDRACE_CUDA_OK : find_meaning(status).reaction;
}

std::string text_of(nvjpegStatus_t status) {
  const Meaning& meaning = find_meaning(status);
  return fmt::format("status {} ({}: {})", static_cast<int>(status), meaning.name, meaning.text);
}

const char* remedy_of(nvjpegStatus_t status) noexcept { return find_meaning(status).remedy; }

void check(nvjpegStatus_t status, const std::string& what) {
  if (status == NVJPEG_STATUS_SUCCESS) return;
  throw Refusal(meaning_of(status),
                fmt::format("{}: {}; {}", what, text_of(status), remedy_of(status)));
}

JpegHeader make_header(const JpegLibrary& library, nvjpegHandle_t handle) {
  nvjpegJpegStream_t made = nullptr;
  check(library.nvjpegJpegStreamCreate(handle, &made), "nvjpegJpegStreamCreate");
  return {library, made};
}

JpegParams make_params(const JpegLibrary& library, nvjpegHandle_t handle) {
  nvjpegDecodeParams_t made = nullptr;
  check(library.nvjpegDecodeParamsCreate(handle, &made), "nvjpegDecodeParamsCreate");
  JpegParams params(library, made);
  check(library.nvjpegDecodeParamsSetOutputFormat(made, NVJPEG_OUTPUT_RGBI),
        "nvjpegDecodeParamsSetOutputFormat");
  return params;
}

}  // namespace feedrace::cuda_plugin
