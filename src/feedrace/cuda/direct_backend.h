// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "feedrace/backend.h"
#include "feedrace/cuda/plugin_loader.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/storage/fallback_log.h"
#include "feedrace/storage/read_threads.h"

namespace feedrace::cuda {

/// How cuFile is opened.
struct DirectOptions {
  bool allow_compatible = true;  ///< False: cuFile's copying through the host is refused.
  std::string system_root;       ///< For tests: goes before /proc, /run and /dev.
};

/// cuFile on one device. Thread-safe; keeps the device alive.
class Direct {
 public:
  /// Failure: kUnsupported, with the first thing that is missing and what to do.
  static Result<std::shared_ptr<Direct>> open(std::shared_ptr<Device> device,
                                              const DirectOptions& options);
  ~Direct();
  Direct(const Direct&) = delete;
  Direct& operator=(const Direct&) = delete;

  const std::shared_ptr<Device>& device() const noexcept { return device_; }
  const feedrace_cuda_plugin& table() const noexcept { return device_->table(); }
  feedrace_cuda_direct* handle() const noexcept { return direct_; }

 private:
  Direct(std::shared_ptr<Device> device, feedrace_cuda_direct* direct)
      : device_(std::move(device)), direct_(direct) {}

  const std::shared_ptr<Device> device_;
  feedrace_cuda_direct* const direct_;
};

/// Memory of a device that cuFile reads into, registered in one piece for as long as this lives.
class DirectMemory {
 public:
  /// Of at least `bytes`. Throws Error: no memory on the device, or it can't be registered.
  DirectMemory(std::shared_ptr<Direct> direct, std::size_t bytes);
  ~DirectMemory();
  DirectMemory(const DirectMemory&) = delete;
  DirectMemory& operator=(const DirectMemory&) = delete;

  /// Addresses of the device's: the CPU must not look at them.
  std::span<std::byte> bytes() const noexcept;
  bool holds(std::span<const std::byte> part) const noexcept;
  const std::shared_ptr<Direct>& direct() const noexcept { return direct_; }

 private:
  const std::shared_ptr<Direct> direct_;
  const DeviceMemory memory_;
};

/// Reads by cuFile, on a few threads, into memory of a device: "cufile". What `Backend` asks of it
/// holds, but for destinations: they lie in the memory that it was made for, and sizes and offsets
/// are multiples of `kBlockBytes`, or the read fails with kInvalidArgument. A running read is not
/// cut short by `cancel_all()`.
class DirectBackend final : public storage::Backend {
 public:
  static constexpr std::size_t kBlockBytes = 4096;

  /// Bytes that cuFile copies through the host are counted in `log`, and as what they are in each
  /// completion. Throws Error kIo when no thread can be started.
  DirectBackend(std::shared_ptr<DirectMemory> memory, std::size_t queue_depth,
                std::shared_ptr<storage::FallbackLog> log);

  std::string_view name() const noexcept override { return "cufile"; }
  Limits limits() const noexcept override { return {kBlockBytes, threads_.queue_depth()}; }
  /// Of what it was made for all is registered already. Failure: kUnsupported for any other.
  Result<void> register_memory(std::span<std::byte> memory) override;
  Result<std::unique_ptr<storage::File>> open(std::string_view uri) override;
  std::size_t submit(std::span<const storage::ReadRequest> requests) noexcept override {
    return threads_.submit(requests);
  }
  std::size_t wait(std::span<storage::Completion> out, std::size_t min_count) noexcept override {
    return threads_.wait(out, min_count);
  }
  void cancel_all() noexcept override { threads_.cancel_all(); }
  void interrupt() noexcept override { threads_.interrupt(); }

 private:
  storage::Completion read(const storage::ReadRequest& request,
                           const storage::StopSign& stop) noexcept;
  Result<std::size_t> read_file(const storage::ReadRequest& request, feedrace_cuda_file* file);
  Path path_of(feedrace_cuda_file* file);

  const std::shared_ptr<DirectMemory> memory_;
  const std::shared_ptr<storage::FallbackLog> log_;
  storage::FallbackLog::Counter& copied_;
  storage::FallbackLog::Counter& unknown_;
  storage::ReadThreads threads_;  // Last: they use all of the others.
};

}  // namespace feedrace::cuda
