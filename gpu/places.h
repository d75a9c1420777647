// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the tests and measurements of gpu/check find the plug-in and NVIDIA's libraries.

#include <cstdlib>
#include <memory>
#include <string>

#include "feedrace/cuda/plugin_loader.h"

namespace feedrace::gpu {

inline std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// FEEDRACE_CUDA_PLUGIN, else the one of this build (CMake gives FEEDRACE_BUILT_PLUGIN), and
/// FEEDRACE_CUDA_LIBRARIES before the system's places: the same variables as `feedrace gpu-info`.
inline cuda::PluginPlaces places() {
  const std::string plugin = from_environment("FEEDRACE_CUDA_PLUGIN");
  cuda::PluginPlaces places{{plugin.empty() ? FEEDRACE_BUILT_PLUGIN : plugin}, {}};
  const std::string libraries = from_environment("FEEDRACE_CUDA_LIBRARIES");
  if (!libraries.empty()) places.libraries = {libraries};
  return places;
}

inline std::shared_ptr<cuda::Plugin> open_plugin() {
  auto plugin = cuda::Plugin::load(places());
  if (!plugin) throw Error(plugin.error().code, plugin.error().message);
  return *plugin;
}

inline std::shared_ptr<cuda::Device> open_device(int ordinal = 0) {
  auto device = cuda::Device::open(open_plugin(), ordinal);
  if (!device) throw Error(device.error().code, device.error().message);
  return *device;
}

/// Until what is on the stream is done.
inline void finish(const std::shared_ptr<cuda::Device>& device, const cuda::Stream& stream) {
  cuda::Event done(device);
  done.record(stream.handle());
  done.wait();
}

}  // namespace feedrace::gpu
