// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 in the host's memory: what the driver promises, and no more. Streams are threads of
// their own, so that work that nobody waited for is seen to be late; the thread sanitizer sees
// every byte that is touched without an order.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "feedrace/cuda/stubs/stub_control.h"

// The types of the driver's handles are declared in cuda.h and ours to define.
struct CUctx_st {
  int ordinal = 0;
};
struct CUmod_st {
  int unused = 0;
};
struct CUfunc_st {
  feedrace_stub_kernel kernel = nullptr;
  std::size_t argument_bytes = 0;
};

/// Done when the last `record` was reached by its stream.
struct CUevent_st {
  std::uint64_t last_recorded() {
    const std::lock_guard lock(mutex);
    return recorded;
  }
  void wait_for(std::uint64_t number) {
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return reached >= number; });
  }

  std::mutex mutex;
  std::condition_variable done;
  std::uint64_t recorded = 0;  // Guarded by mutex. Calls of cuEventRecord.
  std::uint64_t reached = 0;   // Guarded by mutex.
  bool has_time = true;
  std::chrono::steady_clock::time_point time;  // Guarded by mutex.
};

/// A queue and the thread that works it off.
struct CUstream_st {
  CUstream_st() : thread([this] { run(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      is_ending = true;
    }
    changed.notify_all();
    thread.join();
  }
  void put(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex);
      queue.push_back(std::move(work));
    }
    changed.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex);
    idle.wait(lock, [this] { return queue.empty() && !is_busy; });
  }

 private:
  void run();

  std::mutex mutex;
  std::condition_variable changed;
  std::condition_variable idle;
  std::deque<std::function<void()>> queue;  // Guarded by mutex.
  bool is_busy = false;                     // Guarded by mutex.
  bool is_ending = false;                   // Guarded by mutex.
  std::thread thread;
};

void add_host_kernels();

namespace {

struct Failure {
  int nth;
  int code;
};

/// All that the stub knows. Made at the first call, never freed: threads may still use it at exit.
struct World {
  World() { reset(); }

  void reset();
  void read_environment();
  CUcontext context(int ordinal);

  std::mutex mutex;
  int devices = 1;
  std::size_t memory_bytes = std::size_t{1} << 30U;
  int driver_version = CUDA_VERSION;
  std::atomic<int> compute_major = 9;
  std::atomic<int> compute_minor = 0;
  std::atomic<int> host_node = -1;
  std::atomic<int> delay_us = 0;
  std::map<std::string, Failure> failures;
  std::map<std::string, std::uint64_t> calls;
  std::map<std::uintptr_t, std::pair<std::size_t, int>> memory;  // Address: bytes, device.
  std::map<std::uintptr_t, std::size_t> pinned;
  std::map<CUstream, std::shared_ptr<CUstream_st>> streams;
  std::map<CUevent, std::shared_ptr<CUevent_st>> events;
  std::set<CUmodule> modules;
  std::map<std::string, CUfunc_st> kernels;
  std::map<int, CUctx_st> contexts;
  std::map<int, int> retained;
  std::map<int, std::shared_ptr<CUstream_st>> default_streams;
};

World& world() {
  static World* const made = [] {
    auto* fresh = new World;
    fresh->read_environment();
    return fresh;
  }();
  return *made;
}

thread_local std::vector<CUcontext> current;

void World::reset() {
  const std::lock_guard lock(mutex);
  devices = 1;
  memory_bytes = std::size_t{1} << 30U;
  driver_version = CUDA_VERSION;
  compute_major = 9;
  compute_minor = 0;
  host_node = -1;
  delay_us = 0;
  failures.clear();
  calls.clear();
}

int number_in(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

void World::read_environment() {
  devices = number_in("FEEDRACE_STUB_DEVICES", devices);
  delay_us = number_in("FEEDRACE_STUB_DELAY_US", 0);
  driver_version = number_in("FEEDRACE_STUB_DRIVER", driver_version);
  if (const char* text = std::getenv("FEEDRACE_STUB_MEMORY")) {
    memory_bytes = std::strtoull(text, nullptr, 10);
  }
  const char* text = std::getenv("FEEDRACE_STUB_FAIL");
  std::istringstream entries(text == nullptr ? "" : text);
  for (std::string entry; entries >> entry;) {
    char name[64];
    Failure failure{};
    if (std::sscanf(entry.c_str(), "%63[^:]:%d:%d", name, &failure.nth, &failure.code) == 3) {
      failures[name] = failure;
    }
  }
}

CUcontext World::context(int ordinal) {
  CUctx_st& found = contexts[ordinal];
  found.ordinal = ordinal;
  return &found;
}

/// What a call has to fail with; counts it.
CUresult failure_of(const char* call) { return static_cast<CUresult>(feedrace_stub_failure(call)); }

bool has_context() { return !current.empty(); }

/// The stream that a handle means; null when there is none. Shared: another thread may destroy it.
std::shared_ptr<CUstream_st> stream_of(CUstream stream) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  // The default stream by its other names; that of a thread is the same one here.
  const bool is_default =
      stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (!is_default) {
    const auto at = all.streams.find(stream);
    return at == all.streams.end() ? nullptr : at->second;
  }
  if (!has_context()) return nullptr;
  auto& made = all.default_streams[current.back()->ordinal];
  if (!made) made = std::make_shared<CUstream_st>();
  return made;
}

/// Null when there is none. Shared with the streams: they are not out of an event when those who
/// waited for it are.
std::shared_ptr<CUevent_st> found(CUevent event) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  const auto at = all.events.find(event);
  return at == all.events.end() ? nullptr : at->second;
}

CUresult put_on(CUstream stream, std::function<void()> work) {
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  const auto named = stream_of(stream);
  if (!named) return CUDA_ERROR_INVALID_HANDLE;
  named->put(std::move(work));
  return CUDA_SUCCESS;
}

bool is_pinned(const void* address, std::size_t bytes) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto after = all.pinned.upper_bound(at);
  if (after == all.pinned.begin()) return false;
  const auto [begin, size] = *std::prev(after);
  return at + bytes <= begin + size;
}

const void* host(CUdeviceptr address) { return reinterpret_cast<const void*>(address); }
void* host_place(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

/// Pageable memory is staged before the call returns, as the driver does it.
CUresult copy(void* to, const void* from, std::size_t bytes, CUstream stream, bool stage) {
  if (!stage) {
    return put_on(stream, [=] { std::memcpy(to, from, bytes); });
  }
  auto staged = std::make_shared<std::vector<char>>(static_cast<const char*>(from),
                                                    static_cast<const char*>(from) + bytes);
  return put_on(stream, [=] { std::memcpy(to, staged->data(), bytes); });
}

}  // namespace

void CUstream_st::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return !queue.empty() || is_ending; });
    if (queue.empty()) return;
    std::function<void()> work = std::move(queue.front());
    queue.pop_front();
    is_busy = true;
    lock.unlock();
    if (const int delay_us = world().delay_us; delay_us > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    }
    work();
    work = nullptr;
    lock.lock();
    is_busy = false;
    if (queue.empty()) idle.notify_all();
  }
}

extern "C" {

// --- how tests steer it
// ---------------------------------------------------------------------------

void feedrace_stub_reset() { world().reset(); }
void feedrace_stub_set_devices(int count) { world().devices = count; }
void feedrace_stub_set_memory(std::size_t bytes) { world().memory_bytes = bytes; }
void feedrace_stub_set_delay_us(int microseconds) { world().delay_us = microseconds; }
void feedrace_stub_set_driver_version(int version) { world().driver_version = version; }
void feedrace_stub_set_compute(int major, int minor) {
  world().compute_major = major;
  world().compute_minor = minor;
}

void feedrace_stub_set_host_node(int node) { world().host_node = node; }

void feedrace_stub_fail(const char* call, int nth, int code) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  all.failures[call] = {nth, code};
}

int feedrace_stub_failure(const char* call) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  ++all.calls[call];
  const auto found = all.failures.find(call);
  if (found == all.failures.end()) return 0;
  if (found->second.nth == 0) return found->second.code;
  if (--found->second.nth > 0) return 0;
  const int code = found->second.code;
  all.failures.erase(found);
  return code;
}

std::uint64_t feedrace_stub_calls(const char* call) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  const auto found = all.calls.find(call);
  return found == all.calls.end() ? 0 : found->second;
}

std::size_t feedrace_stub_memory_in_use() {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  std::size_t bytes = 0;
  for (const auto& [address, block] : all.memory) bytes += block.first;
  return bytes;
}

std::size_t feedrace_stub_pinned_bytes() {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  std::size_t bytes = 0;
  for (const auto& [address, size] : all.pinned) bytes += size;
  return bytes;
}

std::size_t feedrace_stub_objects() {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  return all.streams.size() + all.events.size() + all.modules.size();
}

int feedrace_stub_is_device_memory(const void* address, std::size_t bytes) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto after = all.memory.upper_bound(at);
  if (after == all.memory.begin()) return 0;
  const auto& [begin, block] = *std::prev(after);
  return at + bytes <= begin + block.first ? 1 : 0;
}

void feedrace_stub_add_kernel(const char* name, feedrace_stub_kernel kernel,
                              std::size_t argument_bytes) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  all.kernels[name] = {kernel, argument_bytes};
}

// --- the driver
// -------------------------------------------------------------------------------------

// Each call: fails if it is told to, refuses what the real one refuses, and does it.
#define FEEDRACE_STUB_ENTER(name)                                     \
  if (const CUresult told = failure_of(name); told != CUDA_SUCCESS) { \
    return told;                                                      \
  }

CUresult cuInit(unsigned) {
  FEEDRACE_STUB_ENTER("cuInit")
  static std::once_flag once;
  std::call_once(once, add_host_kernels);
  return world().devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int* version) {
  FEEDRACE_STUB_ENTER("cuDriverGetVersion")
  *version = world().driver_version;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult, const char** text) {
  *text = "CUDA_ERROR_OF_THE_STUB";
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult result, const char** text) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      *text = "out of memory";
      break;
    case CUDA_ERROR_NO_DEVICE:
      *text = "no CUDA-capable device is detected";
      break;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      *text = "an illegal memory access was encountered";
      break;
    default:
      *text = "an error of the stub";
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  FEEDRACE_STUB_ENTER("cuDeviceGetCount")
  *count = world().devices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  FEEDRACE_STUB_ENTER("cuDeviceGet")
  if (ordinal < 0 || ordinal >= world().devices) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  FEEDRACE_STUB_ENTER("cuDeviceGetName")
  std::snprintf(name, static_cast<std::size_t>(bytes), "Stub GPU %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  FEEDRACE_STUB_ENTER("cuDeviceGetUuid_v2")
  std::memset(uuid, 0, sizeof(*uuid));
  uuid->bytes[15] = static_cast<char>(device + 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int bytes, CUdevice device) {
  FEEDRACE_STUB_ENTER("cuDeviceGetPCIBusId")
  std::snprintf(id, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device + 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  FEEDRACE_STUB_ENTER("cuDeviceGetAttribute")
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = world().compute_major;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = world().compute_minor;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 4;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 227 * 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      *value = 48 * 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      *value = world().host_node;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  FEEDRACE_STUB_ENTER("cuDeviceTotalMem_v2")
  *bytes = world().memory_bytes;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  FEEDRACE_STUB_ENTER("cuDevicePrimaryCtxRetain")
  World& all = world();
  const std::lock_guard lock(all.mutex);
  ++all.retained[device];
  *context = all.context(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  FEEDRACE_STUB_ENTER("cuDevicePrimaryCtxRelease_v2")
  World& all = world();
  const std::lock_guard lock(all.mutex);
  return all.retained[device]-- > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  FEEDRACE_STUB_ENTER("cuCtxPushCurrent_v2")
  current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  FEEDRACE_STUB_ENTER("cuCtxPopCurrent_v2")
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = current.back();
  current.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = has_context() ? current.back() : nullptr;
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  FEEDRACE_STUB_ENTER("cuMemGetInfo_v2")
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  World& all = world();
  const std::lock_guard lock(all.mutex);
  std::size_t used = 0;
  for (const auto& [address, block] : all.memory) {
    if (block.second == current.back()->ordinal) used += block.first;
  }
  *total_bytes = all.memory_bytes;
  *free_bytes = all.memory_bytes - std::min(used, all.memory_bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  FEEDRACE_STUB_ENTER("cuMemAlloc_v2")
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cuMemGetInfo_v2(&free_bytes, &total_bytes);
  if (bytes > free_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  // 256, as the driver's, so that whoever needs more has to see to it.
  void* const made = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(made, 0xcd, bytes);  // Nothing comes zeroed.
  World& all = world();
  const std::lock_guard lock(all.mutex);
  *address = reinterpret_cast<CUdeviceptr>(made);
  all.memory[reinterpret_cast<std::uintptr_t>(made)] = {bytes, current.back()->ordinal};
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  FEEDRACE_STUB_ENTER("cuMemFree_v2")
  // The real one waits for the device.
  std::vector<std::shared_ptr<CUstream_st>> streams;
  World& all = world();
  {
    const std::lock_guard lock(all.mutex);
    if (all.memory.erase(address) == 0) return CUDA_ERROR_INVALID_VALUE;
    for (const auto& [handle, stream] : all.streams) streams.push_back(stream);
    for (const auto& [ordinal, stream] : all.default_streams) streams.push_back(stream);
  }
  for (const auto& stream : streams) stream->drain();
  std::free(host_place(address));
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  FEEDRACE_STUB_ENTER("cuMemHostRegister_v2")
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  World& all = world();
  const std::lock_guard lock(all.mutex);
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  if (all.pinned.contains(at)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  all.pinned[at] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* memory) {
  FEEDRACE_STUB_ENTER("cuMemHostUnregister")
  World& all = world();
  const std::lock_guard lock(all.mutex);
  const bool was_there = all.pinned.erase(reinterpret_cast<std::uintptr_t>(memory)) > 0;
  return was_there ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes,
                              CUstream stream) {
  FEEDRACE_STUB_ENTER("cuMemcpyHtoDAsync_v2")
  if (feedrace_stub_is_device_memory(host(to), bytes) == 0) return CUDA_ERROR_INVALID_VALUE;
  return copy(host_place(to), from, bytes, stream, !is_pinned(from, bytes));
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  FEEDRACE_STUB_ENTER("cuMemcpyDtoHAsync_v2")
  if (feedrace_stub_is_device_memory(host(from), bytes) == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = copy(to, host(from), bytes, stream, false);
  if (result == CUDA_SUCCESS && !is_pinned(to, bytes)) stream_of(stream)->drain();
  return result;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                              CUstream stream) {
  FEEDRACE_STUB_ENTER("cuMemcpyDtoDAsync_v2")
  const bool are_there = feedrace_stub_is_device_memory(host(from), bytes) != 0 &&
                         feedrace_stub_is_device_memory(host(to), bytes) != 0;
  if (!are_there) return CUDA_ERROR_INVALID_VALUE;
  return copy(host_place(to), host(from), bytes, stream, false);
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned, int) {
  FEEDRACE_STUB_ENTER("cuStreamCreateWithPriority")
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  auto made = std::make_shared<CUstream_st>();
  World& all = world();
  const std::lock_guard lock(all.mutex);
  *stream = made.get();
  all.streams[*stream] = std::move(made);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  FEEDRACE_STUB_ENTER("cuStreamDestroy_v2")
  const auto named = stream == nullptr ? nullptr : stream_of(stream);
  if (!named) return CUDA_ERROR_INVALID_HANDLE;
  World& all = world();
  const std::lock_guard lock(all.mutex);
  all.streams.erase(stream);
  return CUDA_SUCCESS;  // It ends behind what is on it, with `named`.
}

CUresult cuStreamSynchronize(CUstream stream) {
  FEEDRACE_STUB_ENTER("cuStreamSynchronize")
  const auto named = stream_of(stream);
  if (!named) return CUDA_ERROR_INVALID_HANDLE;
  named->drain();
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  FEEDRACE_STUB_ENTER("cuEventCreate")
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  auto made = std::make_shared<CUevent_st>();
  made->has_time = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  World& all = world();
  const std::lock_guard lock(all.mutex);
  *event = made.get();
  all.events[*event] = std::move(made);
  return CUDA_SUCCESS;
}

// One that is waited for may be destroyed: it dies when it is reached.
CUresult cuEventDestroy_v2(CUevent event) {
  FEEDRACE_STUB_ENTER("cuEventDestroy_v2")
  World& all = world();
  const std::lock_guard lock(all.mutex);
  return all.events.erase(event) > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventSynchronize(CUevent handle) {
  FEEDRACE_STUB_ENTER("cuEventSynchronize")
  const auto event = found(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  event->wait_for(event->last_recorded());
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
  FEEDRACE_STUB_ENTER("cuEventRecord")
  const auto event = found(handle);
  if (!event || stream_of(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(event->mutex);
    number = ++event->recorded;
  }
  return put_on(stream, [event, number] {
    const std::lock_guard lock(event->mutex);
    event->reached = std::max(event->reached, number);
    event->time = std::chrono::steady_clock::now();
    event->done.notify_all();
  });
}

CUresult cuEventQuery(CUevent handle) {
  FEEDRACE_STUB_ENTER("cuEventQuery")
  const auto event = found(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(event->mutex);
  return event->reached >= event->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent begin_handle, CUevent end_handle) {
  FEEDRACE_STUB_ENTER("cuEventElapsedTime_v2")
  const auto begin = found(begin_handle);
  const auto end = found(end_handle);
  if (!begin || !end || begin == end) return CUDA_ERROR_INVALID_HANDLE;
  const std::scoped_lock lock(begin->mutex, end->mutex);
  if (!begin->has_time || !end->has_time) return CUDA_ERROR_INVALID_HANDLE;
  if (begin->reached < begin->recorded || end->reached < end->recorded) {
    return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned) {
  FEEDRACE_STUB_ENTER("cuStreamWaitEvent")
  const auto event = found(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  return put_on(stream, [event, wanted = event->last_recorded()] { event->wait_for(wanted); });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  FEEDRACE_STUB_ENTER("cuLaunchHostFunc")
  return put_on(stream, [function, data] { function(data); });
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  FEEDRACE_STUB_ENTER("cuModuleLoadData")
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  if (image == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  auto made = std::make_unique<CUmod_st>();
  World& all = world();
  const std::lock_guard lock(all.mutex);
  all.modules.insert(made.get());
  *module = made.release();
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  FEEDRACE_STUB_ENTER("cuModuleUnload")
  World& all = world();
  const std::lock_guard lock(all.mutex);
  if (all.modules.erase(module) == 0) return CUDA_ERROR_INVALID_HANDLE;
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  FEEDRACE_STUB_ENTER("cuModuleGetFunction")
  World& all = world();
  const std::lock_guard lock(all.mutex);
  const auto found = all.kernels.find(name);
  if (found == all.kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *function = &found->second;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  FEEDRACE_STUB_ENTER("cuFuncSetAttribute")
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                        CUstream stream, void** arguments, void**) {
  FEEDRACE_STUB_ENTER("cuLaunchKernel")
  if (function == nullptr || function->kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (grid_x == 0 || grid_y == 0 || grid_z == 0) return CUDA_ERROR_INVALID_VALUE;
  struct Launch {
    unsigned grid[3];
    unsigned block[3];
    alignas(16) unsigned char argument[512];
  };
  auto launch = std::make_shared<Launch>();
  *launch = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {}};
  if (function->argument_bytes > sizeof(launch->argument)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(launch->argument, arguments[0], function->argument_bytes);
  return put_on(stream, [launch, kernel = function->kernel] {
    void* pointers[] = {launch->argument};
    kernel(launch->grid, launch->block, pointers);
  });
}

}  // extern "C"
