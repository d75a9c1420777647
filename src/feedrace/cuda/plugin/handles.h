// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the handles of plugin_abi.h are, and how its calls are made of functions that may throw.

#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "feedrace/cuda/plugin/driver.h"
#include "feedrace/cuda/plugin_abi.h"

namespace feedrace::cuda_plugin {

/// What a call fails with: becomes the status and the message of plugin_abi.h.
class Refusal : public std::runtime_error {
 public:
  Refusal(feedrace_cuda_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  feedrace_cuda_status status() const noexcept { return status_; }

 private:
  feedrace_cuda_status status_;
};

/// Throws unless it is CUDA_SUCCESS; `what` says what was done to what: "cuMemAlloc of 4096 bytes".
void check(const Driver& driver, CUresult result, const std::string& what);

void fill(feedrace_cuda_error* error, const char* message) noexcept;

/// Runs the body of a call of the table: no exception leaves it.
template <typename Body>
int guarded(feedrace_cuda_error* error, const Body& body) noexcept {
  try {
    body();
    return FEEDRACE_CUDA_OK;
  } catch (const Refusal& refusal) {
    fill(error, refusal.what());
    return refusal.status();
  } catch (const std::bad_alloc&) {
    fill(error, "the host is out of memory; lower prefetch_factor or batch_size");
    return FEEDRACE_CUDA_NO_MEMORY;
  } catch (const std::exception& e) {
    fill(error, e.what());
    return FEEDRACE_CUDA_INVALID;
  }
}

/// Gives a text to a caller's buffer, as `info` says.
void give_text(const std::string& text, char* out, size_t capacity, size_t* needed_bytes) noexcept;

}  // namespace feedrace::cuda_plugin

struct feedrace_cuda_runtime {
  explicit feedrace_cuda_runtime(std::vector<std::string> library_folders)
      : folders(std::move(library_folders)), driver(folders) {}

  const std::vector<std::string> folders;
  const feedrace::cuda_plugin::Driver driver;
};

struct feedrace_cuda_device {
  feedrace_cuda_device(const feedrace_cuda_runtime& opened, int number);
  ~feedrace_cuda_device();
  feedrace_cuda_device(const feedrace_cuda_device&) = delete;
  feedrace_cuda_device& operator=(const feedrace_cuda_device&) = delete;

  const feedrace_cuda_runtime& runtime;
  const feedrace::cuda_plugin::Driver& driver;
  const int ordinal;
  CUdevice device = 0;
  CUcontext context = nullptr;  ///< The primary one, which torch and others use as well.
  std::string name;             ///< For messages: "GPU 0 (NVIDIA H200)".

  std::mutex mutex;
  CUmodule kernels = nullptr;  ///< Guarded by mutex. Loaded on first need.
  /// Guarded by mutex. What cuMemAlloc gave, by the aligned address that the caller has.
  std::unordered_map<CUdeviceptr, CUdeviceptr> allocations;
};

namespace feedrace::cuda_plugin {

/// Makes the device's context the thread's while it lives; the driver's state is the thread's.
class Current {
 public:
  explicit Current(const feedrace_cuda_device& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
};

inline CUstream stream_of(feedrace_cuda_stream stream) noexcept {
  return reinterpret_cast<CUstream>(stream);
}
inline CUevent event_of(feedrace_cuda_event event) noexcept {
  return reinterpret_cast<CUevent>(event);
}

/// A kernel of ours. Loads the module first where that has not been done; throws Refusal when the
/// driver is older than the build, or the device than the kernels.
CUfunction kernel(feedrace_cuda_device& device, const char* name);

// The calls of the table, by file. Each `add_...` sets the members of the table that its file
// implements.
void add_memory(feedrace_cuda_plugin& table);
void add_streams(feedrace_cuda_plugin& table);
void add_fused_pass(feedrace_cuda_plugin& table);
void add_decoder(feedrace_cuda_plugin& table);
void add_direct(feedrace_cuda_plugin& table);
void add_ranges(feedrace_cuda_plugin& table);

/// Facts for `info`, as JSON text of one object each. None throws for what is absent.
std::string nvml_facts(const feedrace_cuda_runtime& runtime);
/// What devices do at this moment, as `use` of the table has it.
std::string nvml_use(const feedrace_cuda_runtime& runtime);
std::string decoder_facts(const feedrace_cuda_runtime& runtime);
std::string direct_facts(const feedrace_cuda_runtime& runtime);

}  // namespace feedrace::cuda_plugin
