// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/core/text.h"

namespace feedrace::cuda {
namespace {

constexpr const char* kFileName = "libfeedrace_cuda.so";
constexpr const char* kRemedy =
    "install feedrace-cuda (in a checkout: make cuda), or take device=\"cpu\"";

/// The folder of the library or program that this code is in.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&failure_of), &info) == 0) return {};
  // Of a program that is what it was called by: a name that was found in PATH leads nowhere.
  const std::filesystem::path called(info.dli_fname);
  std::error_code error;
  return std::filesystem::weakly_canonical(called.is_absolute() ? called : "/proc/self/exe", error)
      .parent_path()
      .string();
}

std::vector<std::string> candidates(const PluginPlaces& places) {
  std::vector<std::string> paths;
  const auto add_if_there = [&](std::filesystem::path path) {
    std::error_code error;
    // The loader takes a name without a folder for one that the system knows.
    path = std::filesystem::absolute(path, error);
    if (std::filesystem::is_directory(path, error)) path /= kFileName;
    if (std::filesystem::exists(path, error)) paths.push_back(path.string());
  };
  for (const std::string& place : places.plugin) {
    if (!place.empty()) add_if_there(place);
  }
  // Who names a place does not mean another one.
  if (!places.plugin.empty()) {
    if (!paths.empty()) return paths;
    for (const std::string& place : places.plugin) {
      std::error_code error;
      const bool is_folder = std::filesystem::is_directory(place, error);
      paths.push_back(is_folder ? place + "/" + kFileName : place);
    }
    return paths;
  }
  if (const std::string own = own_folder(); !own.empty()) {
    add_if_there(own + "/" + kFileName);
    add_if_there(own + "/../lib/" + kFileName);
    add_if_there(own + "/../" + kFileName);
  }
  paths.emplace_back(kFileName);
  return paths;
}

struct Opened {
  const feedrace_cuda_plugin* table = nullptr;
  std::string refusal;
};

Opened open_table(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return {nullptr, dlerror()};
  using Get = decltype(&feedrace_cuda_plugin_get);
  const auto get = reinterpret_cast<Get>(dlsym(library, "feedrace_cuda_plugin_get"));
  if (get == nullptr) return {nullptr, path + " is no plug-in of Feedrace"};
  const feedrace_cuda_plugin* const table = get();
  if (table->abi_version != FEEDRACE_CUDA_ABI_VERSION ||
      table->struct_bytes < sizeof(feedrace_cuda_plugin)) {
    return {nullptr, fmt::format("{} has version {} of the table ({} bytes), and {} ({} bytes) is "
                                 "needed: install feedrace and feedrace-cuda of one version",
                                 path, table->abi_version, table->struct_bytes,
                                 FEEDRACE_CUDA_ABI_VERSION, sizeof(feedrace_cuda_plugin))};
  }
  return {table, {}};
}

ErrorCode code_of(int status) {
  switch (status) {
    case FEEDRACE_CUDA_IO:
      return ErrorCode::kIo;
    case FEEDRACE_CUDA_BAD_DATA:
      return ErrorCode::kCorruptData;
    case FEEDRACE_CUDA_INVALID:
      return ErrorCode::kInvalidArgument;
    // No memory, a lost device: nothing that other arguments or data would mend.
    default:
      return ErrorCode::kUnsupported;
  }
}

}  // namespace

Failure failure_of(int status, const feedrace_cuda_error& error) {
  return {code_of(status), error.message};
}

void require(int status, const feedrace_cuda_error& error) {
  if (status == FEEDRACE_CUDA_NO_MEMORY) throw DeviceMemoryError(error.message);
  if (status != FEEDRACE_CUDA_OK) throw Error(code_of(status), error.message);
}

Result<std::shared_ptr<Plugin>> Plugin::load(const PluginPlaces& places) {
  std::vector<std::string> refusals;
  for (const std::string& path : candidates(places)) {
    const Opened opened = open_table(path);
    if (opened.table == nullptr) {
      refusals.push_back(opened.refusal);
      continue;
    }
    const std::string folders = fmt::format("{}", fmt::join(places.libraries, ":"));
    const feedrace_cuda_options options{folders.c_str()};
    feedrace_cuda_error error{};
    feedrace_cuda_runtime* runtime = nullptr;
    if (const int status = opened.table->open_runtime(&options, &runtime, &error); status != 0) {
      return failure_of(status, error);
    }
    return std::shared_ptr<Plugin>(new Plugin(opened.table, runtime, path));
  }
  const std::string looked =
      places.plugin.empty()
          ? fmt::format("looked in {0}, {0}/../lib, {0}/.. and where the system finds libraries: ",
                        own_folder())
          : "";
  return Failure{ErrorCode::kUnsupported,
                 printable(fmt::format("the CUDA plug-in was not loaded: {}{}; {}", looked,
                                       fmt::join(refusals, "; "), kRemedy))};
}

Plugin::~Plugin() { table_->close_runtime(runtime_); }

Result<std::string> Plugin::facts() const { return ask(table_->info); }
Result<std::string> Plugin::use() const { return ask(table_->use); }

Result<std::string> Plugin::ask(Ask call) const {
  feedrace_cuda_error error{};
  std::string text(16 * 1024, '\0');
  for (;;) {
    std::size_t needed_bytes = 0;
    const int status = call(runtime_, text.data(), text.size(), &needed_bytes, &error);
    if (status != FEEDRACE_CUDA_OK) return failure_of(status, error);
    const bool is_whole = needed_bytes <= text.size();
    text.resize(is_whole ? needed_bytes - 1 : needed_bytes);
    if (is_whole) return text;
  }
}

Result<std::shared_ptr<Device>> Device::open(std::shared_ptr<Plugin> plugin, int ordinal) {
  feedrace_cuda_error error{};
  feedrace_cuda_device* device = nullptr;
  const int status = plugin->table().open_device(plugin->runtime(), ordinal, &device, &error);
  if (status != FEEDRACE_CUDA_OK) return failure_of(status, error);
  return std::shared_ptr<Device>(new Device(std::move(plugin), device, ordinal));
}

Device::~Device() { table().close_device(device_); }

DeviceMemory::DeviceMemory(std::shared_ptr<Device> device, std::size_t bytes)
    : device_(std::move(device)), bytes_(bytes) {
  feedrace_cuda_error error{};
  require(device_->table().allocate(device_->handle(), bytes, &address_, &error), error);
}

DeviceMemory::~DeviceMemory() {
  if (device_) device_->table().release(device_->handle(), address_);
}

void DeviceMemory::swap(DeviceMemory& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
}

PinnedRange::PinnedRange(std::shared_ptr<Device> device, void* memory, std::size_t bytes)
    : device_(std::move(device)), memory_(memory) {
  feedrace_cuda_error error{};
  require(device_->table().pin(device_->handle(), memory, bytes, &error), error);
}

PinnedRange::~PinnedRange() {
  if (device_) device_->table().unpin(device_->handle(), memory_);
}

void PinnedRange::swap(PinnedRange& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(memory_, other.memory_);
}

Event::Event(std::shared_ptr<Device> device, bool with_time) : device_(std::move(device)) {
  feedrace_cuda_error error{};
  require(device_->table().create_event(device_->handle(), with_time ? 1 : 0, &event_, &error),
          error);
}

Event::~Event() { device_->table().destroy_event(device_->handle(), event_); }

void Event::record(feedrace_cuda_stream stream) {
  feedrace_cuda_error error{};
  require(device_->table().record(device_->handle(), event_, stream, &error), error);
}

bool Event::is_done() const {
  feedrace_cuda_error error{};
  std::uint32_t done = 0;
  require(device_->table().is_done(device_->handle(), event_, &done, &error), error);
  return done != 0;
}

void Event::wait() const {
  feedrace_cuda_error error{};
  require(device_->table().wait(device_->handle(), event_, &error), error);
}

Stream::Stream(std::shared_ptr<Device> device) : device_(std::move(device)) {
  feedrace_cuda_error error{};
  require(device_->table().create_stream(device_->handle(), &stream_, &error), error);
}

Stream::~Stream() { device_->table().destroy_stream(device_->handle(), stream_); }

void Stream::wait(const Event& event) {
  feedrace_cuda_error error{};
  require(device_->table().make_stream_wait(device_->handle(), stream_, event.handle(), &error),
          error);
}

void Stream::copy_to_device(std::uint64_t destination, const void* source, std::size_t bytes) {
  feedrace_cuda_error error{};
  require(device_->table().copy_to_device(device_->handle(), destination, source, bytes, stream_,
                                          &error),
          error);
}

void Stream::copy_to_host(void* destination, std::uint64_t source, std::size_t bytes) {
  feedrace_cuda_error error{};
  require(
      device_->table().copy_to_host(device_->handle(), destination, source, bytes, stream_, &error),
      error);
}

void Stream::copy_on_device(std::uint64_t destination, std::uint64_t source, std::size_t bytes) {
  feedrace_cuda_error error{};
  require(device_->table().copy_on_device(device_->handle(), destination, source, bytes, stream_,
                                          &error),
          error);
}

}  // namespace feedrace::cuda
