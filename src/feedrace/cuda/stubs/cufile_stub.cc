// SPDX-License-Identifier: Apache-2.0
// libcufile.so.0 that reads into the memory of the stub of libcuda. Beside feedrace_stub_fail (for
// cuFileRead, events of batches and reads on streams: codes below 5000 are error numbers; 10000 * N
// + 5011 is cuFile's 5011 with the driver's error N), the environment says what kind it is; it is
// read anew by each call, so set it while nothing reads:
//   FEEDRACE_STUB_CUFILE_VERSION=1150       which layout its statistics have
//   FEEDRACE_STUB_CUFILE_PATH=p2p           or nvfs; compat (refuses files where that is not
//                                           allowed); sneaky (compat, whatever is allowed); silent
//   FEEDRACE_STUB_CUFILE_MOST_BYTES=N       a read gives no more
//   FEEDRACE_STUB_CUFILE_ZERO_FROM=N        a read from this offset on gives nothing
//   FEEDRACE_STUB_CUFILE_CLOSES_STDIN=1     DriverOpen fails as it does without /dev/nvidia-fs*
//   FEEDRACE_STUB_CUFILE_STUCK=1            batches never end
// What would hang or crash the real one ends the process.
#include <cufile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "feedrace/cuda/stubs/stub_control.h"

namespace {

struct Handle {
  int descriptor;
};

struct StubBatch {
  unsigned most;
  std::vector<CUfileIOEvents_t> events;  // Of what was submitted, the oldest first.
};

struct World {
  std::mutex mutex;
  int opened = 0;
  std::map<int, bool> bools;
  std::map<int, std::size_t> sizes;
  std::set<Handle*> handles;
  std::set<int> descriptors;
  std::map<std::uintptr_t, std::size_t> buffers;
  std::set<StubBatch*> batches;
  int level = 0;
  bool counts = false;
  CUfilePerGpuStats_t statistics{};
};

/// Never freed: threads may still use it at exit.
World& world() {
  static auto& made = *new World;
  return made;
}

std::string text_in(const char* name, const char* otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : text;
}

long long number_in(const char* name, long long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

std::string path() { return text_in("FEEDRACE_STUB_CUFILE_PATH", "p2p"); }
bool is_copying() { return path() == "compat" || path() == "sneaky"; }
int version() { return static_cast<int>(number_in("FEEDRACE_STUB_CUFILE_VERSION", 1150)); }

[[noreturn]] void end_process(const char* why) {
  std::fprintf(stderr, "stub of libcufile: %s\n", why);
  std::abort();
}

CUfileError_t error_of(int code) {
  return {static_cast<CUfileOpError>(code % 10000), static_cast<CUresult>(code / 10000)};
}

/// The context that a call of the real one needs.
bool has_context() {
  CUcontext context = nullptr;
  return cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr;
}

#define FEEDRACE_STUB_ENTER(name) \
  if (const int told = feedrace_stub_failure(name); told != 0) return error_of(told);

#define FEEDRACE_STUB_ENTER_STARTED(name)    \
  FEEDRACE_STUB_ENTER(name)                  \
  const std::lock_guard lock(world().mutex); \
  if (world().opened == 0) return error_of(CU_FILE_DRIVER_NOT_INITIALIZED);

constexpr CUfileError_t kSuccess = {CU_FILE_SUCCESS, CUDA_SUCCESS};

/// Whether the buffer is registered by this address and holds the range.
int refusal_of_range(const void* base, std::size_t bytes, off_t offset) {
  const auto found = world().buffers.find(reinterpret_cast<std::uintptr_t>(base));
  if (found == world().buffers.end()) return CU_FILE_MEMORY_NOT_REGISTERED;
  if (offset < 0 || static_cast<std::size_t>(offset) + bytes > found->second) {
    return CU_FILE_INVALID_MAPPING_RANGE;
  }
  if (feedrace_stub_is_device_memory(base, static_cast<std::size_t>(offset) + bytes) == 0) {
    end_process("a read into memory that was given back");
  }
  return 0;
}

void count_read(ssize_t bytes, bool is_unaligned) {
  World& all = world();
  if (!all.counts || all.level < 3 || path() == "silent") return;
  CUfilePerGpuStats_t& gpu = all.statistics;
  ++gpu.n_total_reads;
  gpu.read_bytes += static_cast<std::uint64_t>(std::max<ssize_t>(bytes, 0));
  if (is_unaligned) ++gpu.n_unaligned_reads;
  if (is_copying()) {
    ++gpu.n_posix_reads;
  } else {
    ++(path() == "nvfs" ? gpu.n_nvfs_reads : gpu.n_p2p_reads);
  }
}

/// A read as cuFile gives it: bytes, -1 with errno, or an error's number with the sign turned.
ssize_t read_now(CUfileHandle_t handle, void* base, std::size_t bytes, off_t file_offset,
                 off_t offset, const char* call) {
  if (const int told = feedrace_stub_failure(call); told != 0) {
    if (told > CUFILEOP_BASE_ERR) return -told;
    errno = told;
    return -1;
  }
  int descriptor = -1;
  {
    const std::lock_guard lock(world().mutex);
    auto* const known = static_cast<Handle*>(handle);
    if (!world().handles.contains(known)) return -CU_FILE_HANDLE_NOT_REGISTERED;
    descriptor = known->descriptor;
    if (const int refusal = refusal_of_range(base, bytes, offset)) return -refusal;
  }
  if (file_offset >= number_in("FEEDRACE_STUB_CUFILE_ZERO_FROM", 1LL << 62)) return 0;
  bytes = std::min(
      bytes, static_cast<std::size_t>(number_in("FEEDRACE_STUB_CUFILE_MOST_BYTES", 1LL << 40)));
  // Around O_DIRECT, whose rules the file systems of test machines do not share.
  const std::string name = "/proc/self/fd/" + std::to_string(descriptor);
  std::FILE* const file = std::fopen(name.c_str(), "rb");
  if (file == nullptr) return -1;
  const ssize_t came = pread(fileno(file), static_cast<char*>(base) + offset, bytes, file_offset);
  std::fclose(file);
  const std::lock_guard lock(world().mutex);
  count_read(came, (static_cast<std::uint64_t>(file_offset) | bytes) % 4096 != 0);
  return came;
}

struct Late {
  CUfileHandle_t handle;
  void* base;
  std::size_t* bytes;
  off_t* file_offset;
  off_t* offset;
  ssize_t* bytes_read;
};

void read_late(void* data) {
  const std::unique_ptr<Late> late(static_cast<Late*>(data));
  const ssize_t came = read_now(late->handle, late->base, *late->bytes, *late->file_offset,
                                *late->offset, "read on a stream");
  __atomic_store_n(late->bytes_read, came, __ATOMIC_RELEASE);
}

}  // namespace

extern "C" {

CUfileError_t cuFileGetVersion(int* out) {
  FEEDRACE_STUB_ENTER("cuFileGetVersion")
  *out = version();
  return kSuccess;
}

CUfileError_t cuFileDriverOpen(void) {
  if (number_in("FEEDRACE_STUB_CUFILE_CLOSES_STDIN", 0) != 0) {
    close(0);
    return error_of(CU_FILE_NVFS_SETUP_ERROR);
  }
  FEEDRACE_STUB_ENTER("cuFileDriverOpen")
  if (!has_context()) return error_of(CU_FILE_INVALID_CONTEXT_ERROR);
  const std::lock_guard lock(world().mutex);
  ++world().opened;
  return kSuccess;
}

CUfileError_t cuFileDriverClose_v2(void) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileDriverClose_v2")
  World& all = world();
  if (!all.handles.empty()) end_process("closed with files registered");
  if (!all.buffers.empty()) end_process("closed with memory registered");
  if (!all.batches.empty()) end_process("closed with batches");
  if (all.level != 0) end_process("closed with statistics on; the real one crashes at exit");
  if (--all.opened == 0) {
    all.bools.clear();
    all.sizes.clear();
  }
  return kSuccess;
}

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* properties) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileDriverGetProperties")
  *properties = {};
  properties->nvfs.dstatusflags = 1U << CU_FILE_NVME_SUPPORTED;
  properties->nvfs.dcontrolflags = 1U << CU_FILE_ALLOW_COMPAT_MODE;
  properties->max_batch_io_size = 128;
  return kSuccess;
}

CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t parameter, bool value) {
  FEEDRACE_STUB_ENTER("cuFileSetParameterBool")
  const std::lock_guard lock(world().mutex);
  if (world().opened > 0) return error_of(CU_FILE_DRIVER_ALREADY_OPEN);
  world().bools[parameter] = value;
  return kSuccess;
}

CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t parameter, std::size_t value) {
  FEEDRACE_STUB_ENTER("cuFileSetParameterSizeT")
  const std::lock_guard lock(world().mutex);
  if (world().opened > 0) return error_of(CU_FILE_DRIVER_ALREADY_OPEN);
  if (parameter == CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB && (value < 64 || value > 16384)) {
    return error_of(CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  }
  world().sizes[parameter] = value;
  return kSuccess;
}

// Before the start the real one tells zeros.
CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t parameter, bool* value) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileGetParameterBool")
  const auto found = world().bools.find(parameter);
  *value = found != world().bools.end() ? found->second
                                        : parameter == CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE;
  return kSuccess;
}

CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t parameter, std::size_t* value) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileGetParameterSizeT")
  const auto found = world().sizes.find(parameter);
  *value = found != world().sizes.end() ? found->second : 128;
  return kSuccess;
}

CUfileError_t cuFileHandleRegister(CUfileHandle_t* handle, CUfileDescr_t* description) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileHandleRegister")
  World& all = world();
  const auto allowed = all.bools.find(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE);
  if (path() == "compat" && allowed != all.bools.end() && !allowed->second) {
    return error_of(CU_FILE_IO_NOT_SUPPORTED);
  }
  if (description->type != CU_FILE_HANDLE_TYPE_OPAQUE_FD || description->fs_ops != nullptr) {
    return error_of(CU_FILE_INVALID_VALUE);
  }
  if (!all.descriptors.insert(description->handle.fd).second) {
    return error_of(CU_FILE_HANDLE_ALREADY_REGISTERED);
  }
  auto* const made = new Handle{description->handle.fd};
  all.handles.insert(made);
  *handle = made;
  return kSuccess;
}

void cuFileHandleDeregister(CUfileHandle_t handle) {
  feedrace_stub_failure("cuFileHandleDeregister");
  const std::lock_guard lock(world().mutex);
  auto* const known = static_cast<Handle*>(handle);
  if (world().handles.erase(known) == 0) end_process("a file that is not registered was let go");
  world().descriptors.erase(known->descriptor);
  delete known;
}

CUfileError_t cuFileBufRegister(const void* base, std::size_t bytes, int) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileBufRegister")
  const auto at = reinterpret_cast<std::uintptr_t>(base);
  if (!has_context()) return error_of(CU_FILE_INVALID_CONTEXT_ERROR);
  if (at % 65536 != 0 || bytes % 65536 != 0) return error_of(CU_FILE_INVALID_VALUE);
  if (feedrace_stub_is_device_memory(base, bytes) == 0) {
    return error_of(CU_FILE_CUDA_MEMORY_TYPE_INVALID);
  }
  for (const auto& [begin, size] : world().buffers) {
    if (at < begin + size && begin < at + bytes) return error_of(CU_FILE_MEMORY_ALREADY_REGISTERED);
  }
  world().buffers[at] = bytes;
  return kSuccess;
}

CUfileError_t cuFileBufDeregister(const void* base) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileBufDeregister")
  const auto found = world().buffers.find(reinterpret_cast<std::uintptr_t>(base));
  if (found == world().buffers.end()) return error_of(CU_FILE_MEMORY_NOT_REGISTERED);
  if (feedrace_stub_is_device_memory(base, found->second) == 0) {
    end_process("memory was given back while it was registered; nvidia-fs can deadlock");
  }
  world().buffers.erase(found);
  return kSuccess;
}

ssize_t cuFileRead(CUfileHandle_t handle, void* base, std::size_t bytes, off_t file_offset,
                   off_t offset) {
  if (!has_context()) return -CU_FILE_INVALID_CONTEXT_ERROR;
  return read_now(handle, base, bytes, file_offset, offset, "cuFileRead");
}

CUfileError_t cuFileReadAsync(CUfileHandle_t handle, void* base, std::size_t* bytes,
                              off_t* file_offset, off_t* offset, ssize_t* bytes_read,
                              CUstream stream) {
  FEEDRACE_STUB_ENTER("cuFileReadAsync")
  auto late = std::make_unique<Late>(Late{handle, base, bytes, file_offset, offset, bytes_read});
  if (const CUresult came = cuLaunchHostFunc(stream, &read_late, late.get());
      came != CUDA_SUCCESS) {
    return {CU_FILE_CUDA_DRIVER_ERROR, came};
  }
  static_cast<void>(late.release());
  return kSuccess;
}

// --- batches: done when they are submitted, told last one first
// ------------------------------------

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* handle, unsigned most) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileBatchIOSetUp")
  if (most == 0 || most > 256) return error_of(CU_FILE_INVALID_VALUE);
  auto* const made = new StubBatch{most, {}};
  world().batches.insert(made);
  *handle = made;
  return kSuccess;
}

CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t handle, unsigned count,
                                  CUfileIOParams_t* reads, unsigned) {
  FEEDRACE_STUB_ENTER("cuFileBatchIOSubmit")
  auto* const batch = static_cast<StubBatch*>(handle);
  if (count > batch->most) return error_of(CU_FILE_BATCH_FULL);
  if (count > 64 && is_copying()) end_process("a batch of more than 64 hangs in compatible mode");
  for (unsigned i = 0; i < count; ++i) {
    const auto& read = reads[i].u.batch;
    errno = 0;
    ssize_t came = read_now(reads[i].fh, read.devPtr_base, read.size, read.file_offset,
                            read.devPtr_offset, "read of a batch");
    if (came == -1) came = -errno;
    batch->events.push_back({reads[i].cookie, came < 0 ? CUFILE_FAILED : CUFILE_COMPLETE,
                             static_cast<std::size_t>(came)});
  }
  return kSuccess;
}

CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t handle, unsigned, unsigned* count,
                                     CUfileIOEvents_t* events, timespec*) {
  FEEDRACE_STUB_ENTER("cuFileBatchIOGetStatus")
  auto* const batch = static_cast<StubBatch*>(handle);
  const bool is_stuck = number_in("FEEDRACE_STUB_CUFILE_STUCK", 0) != 0;
  // In two steps at least, so that callers must ask again.
  const std::size_t most = is_stuck ? 0 : (batch->events.size() + 1) / 2;
  *count = static_cast<unsigned>(std::min<std::size_t>(*count, most));
  for (unsigned i = 0; i < *count; ++i) {
    events[i] = batch->events.back();
    batch->events.pop_back();
  }
  return kSuccess;
}

CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t) {
  FEEDRACE_STUB_ENTER("cuFileBatchIOCancel")
  return kSuccess;
}

void cuFileBatchIODestroy(CUfileBatchHandle_t handle) {
  const std::lock_guard lock(world().mutex);
  auto* const batch = static_cast<StubBatch*>(handle);
  if (world().batches.erase(batch) == 0) end_process("a batch that is none was destroyed");
  delete batch;
}

// --- statistics
// ---------------------------------------------------------------------------------------

CUfileError_t cuFileSetStatsLevel(int level) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileSetStatsLevel")
  if (level < 0 || level > 3) return error_of(CU_FILE_INVALID_VALUE);
  world().level = level;
  return kSuccess;
}

CUfileError_t cuFileStatsStart(void) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileStatsStart")
  world().counts = true;
  return kSuccess;
}

CUfileError_t cuFileStatsStop(void) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileStatsStop")
  world().counts = false;
  return kSuccess;
}

/// As large as this version's: 5000 bytes, 5112 from 1.19 on, more in what is yet to come. Whoever
/// gives a smaller buffer has its neighbours overwritten.
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* out) {
  FEEDRACE_STUB_ENTER_STARTED("cuFileGetStatsL3")
  if (world().level < 3) return error_of(CU_FILE_INVALID_VALUE);
  const std::size_t basic = version() >= 1300 ? 720 : version() >= 1190 ? 624 : 512;
  const std::size_t gpu_count_at = basic + 512;
  const std::size_t gpus_at = gpu_count_at + 8;
  auto* const bytes = reinterpret_cast<unsigned char*>(out);
  std::memset(bytes, 0, gpus_at + 16 * sizeof(CUfilePerGpuStats_t));
  const std::uint32_t gpu_count = 1;
  std::memcpy(bytes + gpu_count_at, &gpu_count, sizeof(gpu_count));
  std::memcpy(bytes + gpus_at, &world().statistics, sizeof(world().statistics));
  return kSuccess;
}

}  // extern "C"
