// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/direct_driver.h"

#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/cuda/plugin/direct_errors.h"
#include "feedrace/cuda/plugin/direct_gate.h"

namespace feedrace::cuda_plugin {
namespace {

constexpr std::size_t kKib = 1024;

struct SizeParameter {
  CUFileSizeTConfigParameter_t parameter;
  const char* name;
};

constexpr SizeParameter kSizes[] = {
    {CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH, "max_io_queue_depth"},
    {CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, "max_io_threads"},
    {CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB, "min_io_threshold_size_kb"},
    {CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM, "max_request_parallelism"},
    {CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, "max_direct_io_size_kb"},
    {CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB, "max_device_cache_size_kb"},
    {CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB, "per_buffer_cache_size_kb"},
    {CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, "max_device_pinned_mem_size_kb"},
    {CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, "io_batchsize"},
    {CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, "poll_threshold_size_kb"},
    {CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS, "batch_io_timeout_ms"},
};

struct BoolParameter {
  CUFileBoolConfigParameter_t parameter;
  const char* name;
};

constexpr BoolParameter kBools[] = {
    {CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, "use_poll_mode"},
    {CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, "allow_compat_mode"},
    {CUFILE_PARAM_FORCE_COMPAT_MODE, "force_compat_mode"},
    {CUFILE_PARAM_EXECUTION_PARALLEL_IO, "parallel_io"},
    {CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY, "allow_system_memory"},
    {CUFILE_PARAM_USE_PCIP2PDMA, "use_pci_p2pdma"},
    {CUFILE_PARAM_PREFER_IO_URING, "prefer_io_uring"},
    {CUFILE_PARAM_FORCE_ODIRECT_MODE, "force_odirect_mode"},
};

/// One for each libcufile in the process, which is started and stopped as a whole; known by the
/// address of its code. Kept for ever, as the library is.
DirectDriver& state_of(const CuFile& cufile) {
  static std::mutex mutex;
  static auto& states = *new std::map<void*, DirectDriver>;
  const std::lock_guard lock(mutex);
  return states[reinterpret_cast<void*>(cufile.cuFileDriverOpen)];
}

/// Before the start only; afterwards cuFile refuses (5026).
class Settings {
 public:
  Settings(const Driver& driver, const CuFile& cufile) : driver_(driver), cufile_(cufile) {}

  void set(BoolParameter parameter, bool value) {
    take(parameter.name, value,
         cufile_.cuFileSetParameterBool == nullptr
             ? std::nullopt
             : std::optional(cufile_.cuFileSetParameterBool(parameter.parameter, value)));
  }
  void set(SizeParameter parameter, std::size_t value) {
    take(parameter.name, value,
         cufile_.cuFileSetParameterSizeT == nullptr
             ? std::nullopt
             : std::optional(cufile_.cuFileSetParameterSizeT(parameter.parameter, value)));
  }
  std::vector<DirectSetting> taken() && { return std::move(taken_); }

 private:
  void take(const char* name, std::size_t value, std::optional<CUfileError_t> came) {
    DirectSetting setting{name, value, ""};
    if (!came) {
      setting.refused = "this cuFile has no calls to set parameters; use cufile.json";
    } else if (came->err == CU_FILE_DRIVER_ALREADY_OPEN) {
      setting.refused = "cuFile was started by another part of the process";
    } else {
      check(driver_, *came, fmt::format("setting {} of cuFile to {}", name, value));
    }
    taken_.push_back(std::move(setting));
  }

  const Driver& driver_;
  const CuFile& cufile_;
  std::vector<DirectSetting> taken_;
};

std::vector<DirectSetting> set_parameters(const Driver& driver, const CuFile& cufile,
                                          const feedrace_cuda_direct_options& options) {
  Settings settings(driver, cufile);
  settings.set({CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, "allow_compat_mode"},
               options.allow_compatible != 0);
  if (options.use_p2pdma != 0) settings.set({CUFILE_PARAM_USE_PCIP2PDMA, "use_pci_p2pdma"}, true);
  if (options.thread_count > 0) {
    settings.set({CUFILE_PARAM_EXECUTION_PARALLEL_IO, "parallel_io"}, true);
    settings.set({CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, "max_io_threads"}, options.thread_count);
  }
  if (options.max_direct_bytes > 0) {
    settings.set({CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, "max_direct_io_size_kb"},
                 options.max_direct_bytes / kKib);
  }
  if (options.max_pinned_bytes > 0) {
    settings.set(
        {CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, "max_device_pinned_mem_size_kb"},
        options.max_pinned_bytes / kKib);
  }
  return std::move(settings).taken();
}

}  // namespace

DirectLease::DirectLease(const Driver& driver, const CuFile& cufile,
                         const feedrace_cuda_direct_options& options)
    : cufile_(cufile), state_(state_of(cufile)) {
  const std::lock_guard lock(state_.mutex);
  if (state_.users == 0) {
    state_.settings = set_parameters(driver, cufile, options);
    const StdinGuard guard;
    const CUfileError_t came = cufile.cuFileDriverOpen();
    state_.is_ours = came.err == CU_FILE_SUCCESS;
    if (came.err != CU_FILE_DRIVER_ALREADY_OPEN) check(driver, came, "cuFileDriverOpen");
  }
  ++state_.users;
}

DirectLease::~DirectLease() {
  const std::lock_guard lock(state_.mutex);
  if (--state_.users > 0 || !state_.is_ours) return;
  const StdinGuard guard;
  cufile_.cuFileDriverClose();
}

bool DirectLease::is_ours() {
  const std::lock_guard lock(state_.mutex);
  return state_.is_ours;
}

std::vector<DirectSetting> DirectLease::settings() {
  const std::lock_guard lock(state_.mutex);
  return state_.settings;
}

bool allows_compatible(const CuFile& cufile) {
  bool value = true;
  return cufile.cuFileGetParameterBool == nullptr ||
         cufile.cuFileGetParameterBool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, &value).err !=
             CU_FILE_SUCCESS ||
         value;
}

std::string direct_parameters(const CuFile& cufile) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const BoolParameter& parameter : kBools) {
    bool value = false;
    if (cufile.cuFileGetParameterBool != nullptr &&
        cufile.cuFileGetParameterBool(parameter.parameter, &value).err == CU_FILE_SUCCESS) {
      out[parameter.name] = value;
    }
  }
  for (const SizeParameter& parameter : kSizes) {
    std::size_t value = 0;
    if (cufile.cuFileGetParameterSizeT != nullptr &&
        cufile.cuFileGetParameterSizeT(parameter.parameter, &value).err == CU_FILE_SUCCESS) {
      out[parameter.name] = value;
    }
  }
  return out.dump();
}

}  // namespace feedrace::cuda_plugin
