// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "feedrace/cuda/plugin_abi.h"
#include "feedrace/error.h"

namespace feedrace::cuda {

/// Where the plug-in and the libraries of NVIDIA are looked for.
struct PluginPlaces {
  /// Files or folders with libfeedrace_cuda.so, the first that can be used. Empty: beside this
  /// library, then the loader's own places.
  std::vector<std::string> plugin;
  /// Folders with libcuda.so.1, libnvjpeg.so.13 and so on, before the loader's own places.
  std::vector<std::string> libraries;
};

/// The plug-in and what it opened. Shared by all that use it; thread-safe. The library itself is
/// never unloaded: CUDA does not allow its teardown at exit.
class Plugin {
 public:
  /// Failure: kUnsupported, with every place that was tried, why it was not that one, and what to
  /// do. A machine without a GPU has a plug-in all the same: see `facts`.
  static Result<std::shared_ptr<Plugin>> load(const PluginPlaces& places);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const feedrace_cuda_plugin& table() const noexcept { return *table_; }
  feedrace_cuda_runtime* runtime() const noexcept { return runtime_; }
  const std::string& path() const noexcept { return path_; }
  /// Driver, devices, nvJPEG, cuFile as JSON, as `info` of the table says.
  Result<std::string> facts() const;
  /// What devices do at this moment, as `use` of the table says.
  Result<std::string> use() const;

 private:
  using Ask = decltype(feedrace_cuda_plugin::info);
  Result<std::string> ask(Ask call) const;
  Plugin(const feedrace_cuda_plugin* table, feedrace_cuda_runtime* runtime, std::string path)
      : table_(table), runtime_(runtime), path_(std::move(path)) {}

  const feedrace_cuda_plugin* const table_;
  feedrace_cuda_runtime* const runtime_;
  const std::string path_;
};

/// What a call of the table failed with, as the library says it.
Failure failure_of(int status, const feedrace_cuda_error& error);
/// The device, or the memory that can be pinned, is full: less may do.
class DeviceMemoryError : public Error {
 public:
  explicit DeviceMemoryError(const std::string& message)
      : Error(ErrorCode::kUnsupported, message) {}
};
/// Throws it as an Error, of which NO_MEMORY is a DeviceMemoryError, unless `status` is success.
void require(int status, const feedrace_cuda_error& error);

/// A device, opened. Thread-safe.
class Device {
 public:
  /// Failure: kUnsupported, with what there is.
  static Result<std::shared_ptr<Device>> open(std::shared_ptr<Plugin> plugin, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const feedrace_cuda_plugin& table() const noexcept { return plugin_->table(); }
  feedrace_cuda_device* handle() const noexcept { return device_; }
  int ordinal() const noexcept { return ordinal_; }
  /// Of its plug-in.
  Result<std::string> facts() const { return plugin_->facts(); }

 private:
  Device(std::shared_ptr<Plugin> plugin, feedrace_cuda_device* device, int ordinal)
      : plugin_(std::move(plugin)), device_(device), ordinal_(ordinal) {}

  const std::shared_ptr<Plugin> plugin_;
  feedrace_cuda_device* const device_;
  const int ordinal_;
};

// What lives on a device. Each keeps it alive, throws Error when it can't be made, and gives back
// what it holds when it dies; moved-from ones hold nothing.

/// Memory of the device, aligned to 64 KiB. Waits for the device when it is made and when it dies.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::shared_ptr<Device> device, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  std::uint64_t address() const noexcept { return address_; }
  std::size_t size_bytes() const noexcept { return bytes_; }

 private:
  void swap(DeviceMemory& other) noexcept;

  std::shared_ptr<Device> device_;
  std::uint64_t address_ = 0;
  std::size_t bytes_ = 0;
};

/// Memory of the host, pinned while this lives. The memory is another's and lives longer.
class PinnedRange {
 public:
  PinnedRange() = default;
  PinnedRange(std::shared_ptr<Device> device, void* memory, std::size_t bytes);
  ~PinnedRange();
  PinnedRange(PinnedRange&& other) noexcept { swap(other); }
  PinnedRange& operator=(PinnedRange&& other) noexcept {
    swap(other);
    return *this;
  }

 private:
  void swap(PinnedRange& other) noexcept;

  std::shared_ptr<Device> device_;
  void* memory_ = nullptr;
};

/// A point in a stream's work.
class Event {
 public:
  explicit Event(std::shared_ptr<Device> device, bool with_time = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  feedrace_cuda_event handle() const noexcept { return event_; }
  void record(feedrace_cuda_stream stream);
  bool is_done() const;
  void wait() const;

 private:
  const std::shared_ptr<Device> device_;
  feedrace_cuda_event event_ = 0;
};

/// A stream of ours. Its end waits for what is on it.
class Stream {
 public:
  explicit Stream(std::shared_ptr<Device> device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  feedrace_cuda_stream handle() const noexcept { return stream_; }
  /// What comes from now on starts behind the event.
  void wait(const Event& event);
  void copy_to_device(std::uint64_t destination, const void* source, std::size_t bytes);
  void copy_to_host(void* destination, std::uint64_t source, std::size_t bytes);
  void copy_on_device(std::uint64_t destination, std::uint64_t source, std::size_t bytes);

 private:
  const std::shared_ptr<Device> device_;
  feedrace_cuda_stream stream_ = 0;
};

}  // namespace feedrace::cuda
