// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/direct_errors.h"

#include <algorithm>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

namespace feedrace::cuda_plugin {
namespace {

struct Meaning {
  int code;
  const char* name;
  feedrace_cuda_status status;
  const char* why;
  const char* remedy;
};

constexpr feedrace_cuda_status kUnsupported = FEEDRACE_CUDA_UNSUPPORTED;
constexpr feedrace_cuda_status kNoMemory = FEEDRACE_CUDA_NO_MEMORY;
constexpr feedrace_cuda_status kIo = FEEDRACE_CUDA_IO;
constexpr feedrace_cuda_status kInvalid = FEEDRACE_CUDA_INVALID;

// All of cuFile's errors. docs/gpudirect.md has the same table for users.
constexpr Meaning kMeanings[] = {
    {5001, "driver not initialised", kUnsupported,
     "nvidia-fs is not loaded and compatible mode is off",
     "modprobe nvidia-fs, or turn PCI P2PDMA on, or allow the compatible path (io_fallback)"},
    {5002, "invalid property", kUnsupported, "the settings of cuFile name a property it lacks",
     "check /etc/cufile.json, or the file that CUFILE_ENV_PATH_JSON names"},
    {5003, "property out of range", kInvalid, "a parameter is beyond what this cuFile takes",
     "leave it at 0 for cuFile's default; docs/gpudirect.md lists the ranges"},
    {5004, "nvidia-fs version mismatch", kUnsupported,
     "the loaded nvidia-fs is of another release than libcufile",
     "install nvidia-fs and libcufile of one CUDA release, then reload nvidia-fs"},
    {5005, "nvidia-fs version not readable", kUnsupported, "nvidia-fs does not tell its version",
     "check /proc/driver/nvidia-fs/version; reload nvidia-fs"},
    {5006, "driver closing", kUnsupported, "another part of this process closes cuFile",
     "open the loader before that, or after it is done"},
    {5007, "platform not supported", kUnsupported, "this kind of machine has no GPUDirect Storage",
     "read through the host (io_fallback), or use a machine that NVIDIA lists"},
    {5008, "file not supported", kUnsupported,
     "the file lies on a file system or drive without a direct path",
     "move the data to ext4 or XFS on a local NVMe drive without RAID and LVM, or allow the "
     "compatible path (io_fallback)"},
    {5009, "GPU not supported", kUnsupported, "this GPU has no GPUDirect Storage",
     "use a data-centre or RTX professional GPU, or allow the compatible path (io_fallback)"},
    {5010, "nvidia-fs ioctl error", kIo, "nvidia-fs refused the request",
     "look into dmesg for nvidia-fs"},
    {5011, "CUDA driver error", kUnsupported, "the CUDA driver refused a call of cuFile",
     "check nvidia-smi and dmesg"},
    {5012, "invalid device pointer", kInvalid, "the address is no device memory",
     "give an address that allocate gave"},
    {5013, "wrong memory type", kInvalid, "the memory is managed or of the host",
     "give memory that allocate gave; managed memory has no direct path"},
    {5014, "pointer range error", kInvalid, "the range is longer than its allocation",
     "register no more than was allocated"},
    {5015, "context mismatch", kInvalid, "the memory belongs to another context or GPU",
     "open one direct reader a GPU, and use memory of that GPU with it"},
    {5016, "beyond the pinned limit", kNoMemory,
     "more would be pinned than max_device_pinned_mem_size or the GPU's BAR1 takes",
     "raise max_pinned_bytes, register less, or see nvidia-smi -q for the size of BAR1"},
    {5017, "beyond the mapped size", kInvalid, "the read ends behind the registered memory",
     "lower memory_offset or bytes"},
    {5018, "unsupported file type", kUnsupported, "it is no regular file",
     "give a regular file on ext4, XFS or a file system that NVIDIA lists"},
    {5019, "unsupported open flags", kInvalid,
     "the descriptor was opened with flags cuFile refuses",
     "open it with O_RDONLY | O_DIRECT only"},
    {5020, "O_DIRECT not set", kInvalid, "the descriptor goes through the page cache",
     "open it with O_DIRECT"},
    {5022, "invalid value", kInvalid, "cuFile does not take an argument",
     "check that sizes and offsets are multiples of 4096; update libcufile if they are"},
    {5023, "memory already registered", kInvalid, "the memory, or a part of it, is registered",
     "unregister it first, or use what is registered"},
    {5024, "memory not registered", kInvalid, "cuFile does not know the memory",
     "register it first, and give the address that was registered"},
    {5025, "permission denied", kUnsupported, "this user may not open /dev/nvidia-fs* or the file",
     "let the user read and write /dev/nvidia-fs* (and give them to the container)"},
    {5026, "driver already open", kUnsupported, "another part of this process opened cuFile",
     "open the loader first if its parameters shall hold"},
    {5027, "file descriptor not registered", kUnsupported,
     "cuFile cannot tell what drive the file lies on: its record in the udev database is missing",
     "start the container with -v /run/udev:/run/udev:ro; LVM, overlayfs and tmpfs have no record"},
    {5028, "file descriptor registered twice", kInvalid, "the descriptor is open here already",
     "open each descriptor once, and close_file before it is used anew"},
    {5029, "GPU not found", kUnsupported, "cuFile does not see the GPU",
     "check CUDA_VISIBLE_DEVICES and nvidia-smi"},
    {5030, "internal error", kIo, "cuFile does not say why; often the udev database cannot be read",
     "check /run/udev, then run once with CUFILE_LOGGING_LEVEL=TRACE and read cufile.log"},
    {5031, "no new descriptor", kNoMemory, "the process has no free file descriptors",
     "raise ulimit -n"},
    {5033, "set-up error", kUnsupported,
     "cuFile could not start: no CUDA driver, or /dev/nvidia-fs* cannot be opened",
     "check nvidia-smi, and that /dev/nvidia-fs* are there if nvidia-fs is loaded"},
    {5034, "disabled by the settings", kUnsupported,
     "cufile.json turns the direct path off for this file system",
     "check allow_compat_mode, and the deny lists in /etc/cufile.json"},
    {5035, "batch not submitted", kIo, "the kernel took none of the batch",
     "raise fs.aio-max-nr, or read without batches"},
    {5036, "pinning failed", kNoMemory, "the GPU's memory could not be pinned",
     "register less, or free memory of the GPU; see nvidia-smi -q for the size of BAR1"},
    {5037, "batch full", kInvalid, "more reads in a batch than it was set up for",
     "use smaller batches"},
    {5038, "streams not supported", kUnsupported, "this cuFile has no reads ordered on a stream",
     "use read instead of read_async, or install a newer libcufile"},
    {5039, "batch set-up error", kIo, "cuFile had no room for the batch", "read without batches"},
    {5040, "batch submit error", kIo, "cuFile could not submit the batch", "read without batches"},
    {5041, "batch status error", kIo, "cuFile lost track of the batch", "read without batches"},
    {5042, "batch cancel error", kIo, "cuFile could not cancel the batch", "read without batches"},
    {5043, "out of memory", kNoMemory, "cuFile had no memory on the host",
     "free memory of the host, or lower prefetch_factor"},
    {5044, "I/O error", kIo, "the drive failed, or the file system refused",
     "look into dmesg for errors of the drive"},
    {5045, "buffer registration error", kNoMemory, "cuFile could not register the memory",
     "register less; see nvidia-smi -q for the size of BAR1"},
    {5046, "hash error", kIo, "cuFile's own tables failed", "update libcufile"},
    {5047, "invalid context", kInvalid, "the GPU's context is gone",
     "open the device anew; do not reset it while a loader lives"},
    {5048, "nvidia-fs internal error", kIo, "nvidia-fs failed inside",
     "look into dmesg for nvidia-fs; reload it"},
    {5049, "batch needs compatible mode", kUnsupported,
     "a read of the batch has no direct path and compatible mode is off",
     "allow the compatible path (io_fallback), or move the data"},
    {5050, "beyond the last error", kIo, "cuFile gave a number that is no error",
     "update libcufile"},
};

constexpr Meaning kUnknown = {0, "unknown to this build", kIo, "this cuFile is newer than Feedrace",
                              "look the number up in NVIDIA's cuFile reference"};

const Meaning& meaning_of(int code) noexcept {
  const auto* at = std::find_if(std::begin(kMeanings), std::end(kMeanings),
                                [&](const Meaning& meaning) { return meaning.code == code; });
  return at == std::end(kMeanings) ? kUnknown : *at;
}

}  // namespace

Refusal cufile_refusal(const Driver& driver, CUfileError_t error, const std::string& what) {
  if (error.err == CU_FILE_CUDA_DRIVER_ERROR && error.cu_err != CUDA_SUCCESS) {
    // The driver's own text, and its status: a lost device stays a lost device.
    try {
      cuda_plugin::check(driver, error.cu_err, what + " (cuFile's 5011)");
    } catch (const Refusal& refusal) {
      return refusal;
    }
  }
  const Meaning& meaning = meaning_of(static_cast<int>(error.err));
  return {meaning.status, fmt::format("{} gave {} ({}): {}; {}", what, static_cast<int>(error.err),
                                      meaning.name, meaning.why, meaning.remedy)};
}

void check(const Driver& driver, CUfileError_t error, const std::string& what) {
  if (error.err != CU_FILE_SUCCESS) throw cufile_refusal(driver, error, what);
}

Refusal read_refusal(const Driver& driver, std::ptrdiff_t result, int error_number,
                     const std::string& what) {
  if (result < -CUFILEOP_BASE_ERR) {
    return cufile_refusal(driver, {static_cast<CUfileOpError>(-result), CUDA_SUCCESS}, what);
  }
  const int number = result == -1 ? error_number : static_cast<int>(-result);
  return {FEEDRACE_CUDA_IO,
          fmt::format("{} gave errno {} ({}); look into dmesg for errors of the drive", what,
                      number, std::generic_category().message(number))};
}

}  // namespace feedrace::cuda_plugin
