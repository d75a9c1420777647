// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "feedrace/format.h"

namespace feedrace::formats {

/// Whether a file that begins so is one that the command itself wrote, and may replace.
using OwnOutput = bool (*)(std::string_view head);

/// Of outputs that look like what data sets consist of: none is known again.
bool never_own(std::string_view head) noexcept;
/// Lines of JSON that name bad samples.
bool is_bad_list(std::string_view head);

/// What a command reads, which nothing that it writes may take the place of.
struct InputFiles {
  /// As they were named: files, folders, lists, patterns.
  std::vector<std::string> sources;
  /// Further files, such as one of labels; empty names count for nothing.
  std::vector<std::string> files;
  /// The set that was opened from the sources, or null. Of a list or a folder with links it tells
  /// the pictures that lie elsewhere.
  const Dataset* set = nullptr;
};

/// Throws Error kInvalidArgument where `output`, which `option` names, is one of the inputs, by
/// whatever link, lies in a folder of the sources and is there already, unless `is_own` knows it,
/// or would become a sample of such a folder. An empty output counts for nothing, and so do pipes
/// and devices.
void check_output(std::string_view option, const std::string& output, const InputFiles& inputs,
                  OwnOutput is_own);

}  // namespace feedrace::formats
