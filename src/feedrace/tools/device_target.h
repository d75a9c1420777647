// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "feedrace/diagnose/device_reads.h"
#include "feedrace/tools/command.h"

namespace feedrace::tools {

/// Where the plug-in and NVIDIA's libraries are looked for: --cuda-plugin and --cuda-libraries, or
/// the environment.
void add_plugin_places(CLI::App& command, std::vector<std::string>& plugin,
                       std::vector<std::string>& libraries);

/// The GPU that `device` names; "auto": GPU 0, or none and why. Throws Error: kInvalidArgument for
/// no such name, kUnsupported when one that was named is not to be had.
diagnose::DeviceTarget open_target(const std::string& device,
                                   const std::vector<std::string>& plugin,
                                   const std::vector<std::string>& libraries);

}  // namespace feedrace::tools
