// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "feedrace/format.h"

namespace feedrace::tools {

/// What `feedrace index` has to do with indexes of other loaders.
struct ExchangeOptions {
  std::string format;  ///< "dali" or "wids": write one of these. Empty: none.
  std::string target;  ///< Where: a folder for dali, a file for wids. Empty: beside the shards.
  std::string import_path;  ///< Read one that lies there. Empty: none.
};

/// Writes an index for another loader; the exit code.
int export_index(const std::vector<std::string>& shards, const ExchangeOptions& exchange,
                 const formats::OpenOptions& format, bool as_json);

/// Makes our index from one of another loader; the exit code.
int import_index(const std::vector<std::string>& shards, const ExchangeOptions& exchange,
                 const formats::OpenOptions& format, bool as_json);

}  // namespace feedrace::tools
