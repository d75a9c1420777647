// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/format.h"
#include "feedrace/formats/file_list.h"
#include "feedrace/formats/image_folder.h"
#include "feedrace/formats/webdataset.h"

namespace feedrace::formats {
namespace {

/// Local paths are taken as they are; "file://" is the same, spelled as a URI.
std::string local_path(const std::string& source) {
  constexpr std::string_view kFile = "file://";
  if (source.starts_with(kFile)) return source.substr(kFile.size());
  const std::size_t scheme = source.find("://");
  const std::size_t slash = source.find('/');
  if (scheme == std::string::npos || scheme == 0 || slash < scheme) return source;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: {} is not supported; copy the data set to a local or mounted folder",
                          printable(source), printable(source.substr(0, scheme + 3))));
}

[[noreturn]] void fail_unknown(const std::vector<std::string>& sources) {
  const std::string& first = sources[0];
  struct stat status{};
  for (const std::string& source : sources) {
    if (stat(source.c_str(), &status) != 0) {
      const bool absent = errno == ENOENT || errno == ENOTDIR;
      throw Error(absent ? ErrorCode::kNotFound : ErrorCode::kIo,
                  fmt::format("{}: {}; check the path", printable(source),
                              absent ? "no such file or folder" : errno_text("stat", errno)));
    }
  }
  if (sources.size() > 1) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} and {} more: several sources must all be .tar shards; give one folder "
                    "or one list, or only shards",
                    printable(first), sources.size() - 1));
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{}: neither a folder, a .tar shard, nor a list (.csv .jsonl .txt .lst); "
                          "name it by what it holds",
                          printable(first)));
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const std::vector<std::string>& sources,
                                      const OpenOptions& options) {
  if (sources.empty())
    throw Error(ErrorCode::kInvalidArgument, "no source given; name the data set");
  std::vector<std::string> paths;
  paths.reserve(sources.size());
  for (const std::string& source : sources) paths.push_back(local_path(source));
  // Tried in this order: a folder with shards in it is shards, any other an image folder.
  const WebdatasetFormat webdataset;
  const FileListFormat list;
  const ImageFolderFormat folder;
  const std::array<const Format*, 3> formats = {&webdataset, &list, &folder};
  for (const Format* format : formats) {
    if (format->accepts(paths)) return format->open(paths, options);
  }
  fail_unknown(paths);
}

}  // namespace feedrace::formats
