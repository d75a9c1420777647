// SPDX-License-Identifier: Apache-2.0
// feedrace gpu-info: what of a GPU this machine has, and why not more.

#include <memory>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/cuda/plugin_loader.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/device_target.h"
#include "feedrace/tools/json_text.h"

namespace feedrace::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  cuda::PluginPlaces places;
  bool as_json = false;
};

void line(const char* name, const std::string& text) {
  fmt::print("{:<10}{}\n", name, printable(text));
}

std::string text_of(const Json& facts, const char* key) {
  const auto found = facts.find(key);
  if (found == facts.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

/// "13.0, /usr/lib/libcuda.so.1", or why it is not there.
std::string library_text(const Json& facts, const char* version_key) {
  if (facts.contains("missing")) {
    return fmt::format("missing: {}; {}", text_of(facts, "missing"), text_of(facts, "remedy"));
  }
  std::string text = text_of(facts, version_key) + ", " + text_of(facts, "library");
  if (facts.contains("refused")) text += "; refused: " + text_of(facts, "refused");
  return text;
}

/// What another list of the facts says of a device, by a key that both have; null when nothing.
Json matching(const Json& list, const char* key, const Json& device) {
  for (const Json& one : list) {
    if (one.is_object() && one.contains(key) && one[key] == device[key]) return one;
  }
  return Json::object();
}

std::string device_text(const Json& facts, const Json& device) {
  const auto memory_bytes = device["memory_bytes"].get<std::uint64_t>();
  std::string text =
      fmt::format("{}, {}, compute {}, {} multiprocessors, {}", text_of(device, "name"),
                  human_bytes(memory_bytes), text_of(device, "compute"),
                  text_of(device, "multiprocessors"), text_of(device, "pci"));
  const Json link = matching(facts["nvml"].value("devices", Json::array()), "pci", device);
  if (link.contains("pcie_lanes")) {
    text +=
        fmt::format(", PCIe {} x{}", text_of(link, "pcie_generation"), text_of(link, "pcie_lanes"));
  }
  if (link.contains("numa_node")) text += ", NUMA node " + text_of(link, "numa_node");
  const Json jpeg = matching(facts["nvjpeg"].value("hardware", Json::array()), "ordinal", device);
  if (jpeg.contains("engines")) {
    text += fmt::format(", {} JPEG engines of {} cores", text_of(jpeg, "engines"),
                        text_of(jpeg, "cores"));
  }
  return text;
}

void print_text(const cuda::Plugin& plugin, const Json& facts) {
  const feedrace_cuda_plugin& table = plugin.table();
  line("plug-in", fmt::format("{}, {}, for CUDA {}.{}, kernels for {}", table.version,
                              plugin.path(), table.built_for_cuda / 1000,
                              table.built_for_cuda % 1000 / 10, table.architectures));
  line("driver", library_text(facts["driver"], "version"));
  line("NVML", library_text(facts["nvml"], "driver_version"));
  line("nvJPEG", library_text(facts["nvjpeg"], "version"));
  line("cuFile", library_text(facts["cufile"], "version"));
  for (const Json& device : facts["devices"]) {
    line(fmt::format("GPU {}", text_of(device, "ordinal")).c_str(), device_text(facts, device));
  }
  if (facts.contains("devices_missing")) line("GPU", "none: " + text_of(facts, "devices_missing"));
}

int show(const Options& options) {
  const auto loaded = cuda::Plugin::load(options.places);
  if (!loaded && options.as_json) {
    const std::string& why = loaded.error().message;
    print_json(
        {{"plugin", {{"missing", why}}}, {"devices", Json::array()}, {"devices_missing", why}});
    return kEnvironment;
  }
  if (!loaded) raise(loaded.error());
  const auto text = (*loaded)->facts();
  if (!text) raise(text.error());
  Json facts = Json::parse(*text);
  if (options.as_json) {
    facts["plugin"] = {{"version", (*loaded)->table().version},
                       {"path", (*loaded)->path()},
                       {"built_for_cuda", (*loaded)->table().built_for_cuda},
                       {"architectures", (*loaded)->table().architectures}};
    print_json(facts);
  } else {
    print_text(**loaded, facts);
  }
  return facts["devices"].empty() ? kEnvironment : kGood;
}

}  // namespace

void add_gpu_info(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "gpu-info",
      "Say what of a GPU there is: driver, devices, nvJPEG, cuFile; ends with 3 when "
      "there is no device");
  auto options = std::make_shared<Options>();
  add_plugin_places(*command, options->places.plugin, options->places.libraries);
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return show(*options); });
}

}  // namespace feedrace::tools
