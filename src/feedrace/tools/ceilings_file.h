// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace feedrace::tools {

/// What `bench ceilings PATH --json` wrote to a file, parsed once to see that it is so. Throws
/// Error, with the file's name: kNotFound, kIo; kInvalidArgument when it is something else.
std::string read_ceilings_text(const std::string& path);

}  // namespace feedrace::tools
