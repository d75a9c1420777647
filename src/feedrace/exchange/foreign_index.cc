// SPDX-License-Identifier: Apache-2.0
#include "feedrace/exchange/foreign_index.h"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::exchange {
namespace {

namespace fs = std::filesystem;

bool is_there(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool has_idx_files(const std::string& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (entries->path().extension() == ".idx") return true;
  }
  return false;
}

}  // namespace

Result<std::string> read_index_text(const std::string& path, std::uint64_t most_bytes) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (!error && size > most_bytes) {
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("{}: {}, more than an index has; name another file", printable(path),
                               human_bytes(size))};
  }
  return formats::read_whole_file(path);
}

std::unique_ptr<ForeignIndex> open_foreign_index(const std::string& path) {
  std::error_code error;
  if (!is_there(path)) {
    throw Error(ErrorCode::kNotFound, fmt::format("{}: nothing is there; name the index of another "
                                                  "loader",
                                                  printable(path)));
  }
  if (fs::is_directory(path, error)) {
    if (is_there(path + "/index.sqlite")) return open_energon_index(path);
    if (is_there(path + "/.nv-meta/index.sqlite")) return open_energon_index(path + "/.nv-meta");
    if (has_idx_files(path)) return open_dali_index(path);
  } else if (path.ends_with(".idx")) {
    return open_dali_index(formats::folder_of(path));
  } else if (path.ends_with(".json")) {
    return open_wids_index(path);
  } else if (path.ends_with("/index.sqlite")) {
    return open_energon_index(formats::folder_of(path));
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{}: no index that can be read; name a folder with DALI's .idx files, a "
                          "wids .json, or Energon's folder .nv-meta",
                          printable(path)));
}

}  // namespace feedrace::exchange
