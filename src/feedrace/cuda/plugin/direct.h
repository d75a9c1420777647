// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>

#include "feedrace/cuda/plugin/direct_driver.h"
#include "feedrace/cuda/plugin/direct_gate.h"
#include "feedrace/cuda/plugin/direct_library.h"
#include "feedrace/cuda/plugin/direct_path.h"
#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {

/// Of offsets and sizes: what a drive reads by itself; anything else is copied on its way.
inline constexpr std::uint64_t kBlockBytes = 4096;
/// Of registered memory: a page of the GPU.
inline constexpr std::uint64_t kGpuPageBytes = 64 * 1024;

/// A reference of our own to the device's primary context: files may be closed after the device.
class PrimaryContext {
 public:
  explicit PrimaryContext(const feedrace_cuda_device& opened);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  const Driver& driver;
  const CUdevice device;
  const std::string name;  ///< Of the device, for messages.
  CUcontext context = nullptr;
};

/// Makes that context the thread's while it lives. cuFile takes the GPU from it.
class Entered {
 public:
  explicit Entered(const PrimaryContext& primary);
  ~Entered();
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  const Driver& driver_;
};

/// For what gives things back, which goes on when the device is lost.
class EnteredIfPossible {
 public:
  explicit EnteredIfPossible(const PrimaryContext& primary) noexcept;

 private:
  std::optional<Entered> entered_;
};

/// How the files of one file system are read, as a probe showed.
struct DirectFileSystem {
  DirectPath path = DirectPath::kUnknown;
  std::string probed_file;
};

/// cuFile on one device. Shared by its handle and its files, so that it goes with the last of them.
struct DirectSession {
  DirectSession(const feedrace_cuda_device& device, const feedrace_cuda_direct_options& options);

  const PrimaryContext primary;
  const DirectGate gate;
  const CuFile cufile;
  const bool allow_compatible;
  std::optional<DirectLease> lease;  ///< Gone once closed.

  /// Shared by calls; alone to close, which so waits for reads.
  std::shared_mutex closing;
  bool is_closed = false;  ///< Guarded by closing.

  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> registered_bytes;  ///< By address. Guarded by mutex.
  std::set<feedrace_cuda_file*> files;                      ///< Open ones. Guarded by mutex.
  std::map<dev_t, DirectFileSystem> file_systems;           ///< Guarded by mutex.

  std::atomic<std::uint64_t> reads = 0;
  std::atomic<std::uint64_t> direct_bytes = 0;
  std::atomic<std::uint64_t> compatible_bytes = 0;
  std::atomic<std::uint64_t> unknown_bytes = 0;
};

/// Keeps the session open, and its context the thread's, while it lives; throws when it was closed.
class InSession {
 public:
  explicit InSession(DirectSession& session);

 private:
  std::shared_lock<std::shared_mutex> open_;
  Entered entered_;
};

/// Stops cuFile's use of the memory and the files, in the order that it needs; idempotent.
void close_session(DirectSession& session) noexcept;

/// Waits for the reads of the file that are on streams.
void wait_for_pending(feedrace_cuda_file& file) noexcept;
/// Frees them, but for what may still be written to.
void free_pending(feedrace_cuda_file& file) noexcept;

/// Of the open file, as it is now.
std::uint64_t size_bytes_of(int descriptor, const std::string& name);

void add_direct_reads(feedrace_cuda_plugin& table);

}  // namespace feedrace::cuda_plugin

struct feedrace_cuda_direct {
  std::shared_ptr<feedrace::cuda_plugin::DirectSession> session;
};

struct feedrace_cuda_file {
  std::shared_ptr<feedrace::cuda_plugin::DirectSession> session;
  int descriptor = -1;
  std::string name;  ///< For messages: its path.
  CUfileHandle_t handle = nullptr;
  feedrace::cuda_plugin::DirectPath path = feedrace::cuda_plugin::DirectPath::kUnknown;

  std::mutex mutex;
  std::set<feedrace_cuda_pending_read*> pending;  ///< Guarded by mutex.
};

/// cuFile reads and writes these when the stream comes to it, so they have a place of their own.
struct feedrace_cuda_pending_read {
  feedrace_cuda_file* file;
  CUstream stream;
  std::uint64_t base;
  std::size_t size;
  off_t file_offset;
  off_t memory_offset;
  ssize_t bytes_read;
};
