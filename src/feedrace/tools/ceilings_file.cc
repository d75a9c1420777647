// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/ceilings_file.h"

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/tools/whole_file.h"
#include "feedrace/verdict/ceilings.h"

namespace feedrace::tools {

std::string read_ceilings_text(const std::string& path) {
  std::string text = read_whole_text(path);
  try {
    static_cast<void>(verdict::parse_ceilings(text));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", printable(path), error.what()));
  }
  return text;
}

}  // namespace feedrace::tools
