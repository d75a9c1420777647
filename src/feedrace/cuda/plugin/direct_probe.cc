// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/direct_probe.h"

#include <cerrno>

#include <fmt/format.h>

#include "feedrace/cuda/plugin/direct_errors.h"

namespace feedrace::cuda_plugin {
namespace {

/// One page of the GPU, registered as the memory of real reads is.
class ProbeMemory {
 public:
  explicit ProbeMemory(const DirectSession& session) : session_(session) {
    const Driver& driver = session.primary.driver;
    check(driver, driver.cuMemAlloc(&given_, 2 * kGpuPageBytes),
          fmt::format("cuMemAlloc of {} bytes for a probe read on {}", 2 * kGpuPageBytes,
                      session.primary.name));
    const CUfileError_t came = session.cufile.cuFileBufRegister(address(), kGpuPageBytes, 0);
    if (came.err == CU_FILE_SUCCESS) return;
    driver.cuMemFree(given_);
    throw cufile_refusal(driver, came,
                         "cuFileBufRegister for a probe read on " + session.primary.name);
  }
  ~ProbeMemory() {
    session_.cufile.cuFileBufDeregister(address());
    session_.primary.driver.cuMemFree(given_);
  }
  ProbeMemory(const ProbeMemory&) = delete;
  ProbeMemory& operator=(const ProbeMemory&) = delete;

  void* address() const noexcept {
    return reinterpret_cast<void*>((given_ + kGpuPageBytes - 1) / kGpuPageBytes * kGpuPageBytes);
  }

 private:
  const DirectSession& session_;
  CUdeviceptr given_ = 0;
};

DirectPath probe(DirectSession& session, const feedrace_cuda_file& file) {
  const ProbeMemory memory(session);
  const auto alone = session.lease->reads().alone();
  const DirectStatistics statistics(session.cufile);
  const auto before = statistics.reads();
  errno = 0;
  const ssize_t came =
      session.cufile.cuFileRead(file.handle, memory.address(), kGpuPageBytes, 0, 0);
  if (came < 0) {
    throw read_refusal(session.primary.driver, came, errno, "a probe cuFileRead of " + file.name);
  }
  if (came == 0) {
    throw Refusal(FEEDRACE_CUDA_IO,
                  fmt::format("a probe cuFileRead of {} gave 0 bytes without an error; check that "
                              "the GPU works (nvidia-smi), and CUFILE_LOGGING_LEVEL=TRACE",
                              file.name));
  }
  return path_between(before, statistics.reads());
}

}  // namespace

DirectPath path_of(DirectSession& session, const feedrace_cuda_file& file, dev_t file_system) {
  {
    const std::lock_guard lock(session.mutex);
    const auto known = session.file_systems.find(file_system);
    if (known != session.file_systems.end()) return known->second.path;
  }
  if (size_bytes_of(file.descriptor, file.name) < kBlockBytes) return DirectPath::kUnknown;
  // Two threads may come here for one file system: both find the same.
  const DirectPath path = probe(session, file);
  const std::lock_guard lock(session.mutex);
  session.file_systems.try_emplace(file_system, DirectFileSystem{path, file.name});
  return path;
}

}  // namespace feedrace::cuda_plugin
