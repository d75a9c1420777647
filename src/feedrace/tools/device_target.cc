// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/device_target.h"

#include <fmt/format.h>

#include "feedrace/pipeline/device_delivery.h"
#include "feedrace/tools/json_text.h"

namespace feedrace::tools {
namespace {

/// "NVIDIA H200"; empty when the plug-in does not say.
std::string model_of(const cuda::Plugin& plugin, int ordinal) {
  const auto text = plugin.facts();
  if (!text) return {};
  const auto facts = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  for (const auto& device : facts.value("devices", nlohmann::json::array())) {
    if (device.value("ordinal", -1) == ordinal) return device.value("name", std::string());
  }
  return {};
}

}  // namespace

void add_plugin_places(CLI::App& command, std::vector<std::string>& plugin,
                       std::vector<std::string>& libraries) {
  command
      .add_option("--cuda-plugin", plugin,
                  "libfeedrace_cuda.so, or its folder (default: beside this program, then as the "
                  "system finds libraries)")
      ->envname("FEEDRACE_CUDA_PLUGIN")
      ->check(not_empty());
  command
      .add_option("--cuda-libraries", libraries,
                  "Folders with the libraries of NVIDIA, before the system's places")
      ->envname("FEEDRACE_CUDA_LIBRARIES")
      ->check(not_empty());
}

diagnose::DeviceTarget open_target(const std::string& device,
                                   const std::vector<std::string>& plugin,
                                   const std::vector<std::string>& libraries) {
  LoaderOptions options;
  options.device = device;
  options.cuda_plugin = plugin;
  options.cuda_libraries = libraries;
  const pipeline::DeviceChoice choice = pipeline::choose_device(options);
  diagnose::DeviceTarget target;
  target.device = choice.device;
  target.missing = choice.reason;
  target.name = choice.name;
  if (!choice.device) return target;
  const auto loaded = cuda::Plugin::load({plugin, libraries});
  const std::string model = loaded ? model_of(**loaded, choice.device->ordinal()) : std::string();
  if (!model.empty()) target.name += fmt::format(" ({})", model);
  return target;
}

}  // namespace feedrace::tools
