// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/picture_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/storage/backends.h"
#include "feedrace/tools/whole_file.h"

namespace feedrace::tools {
namespace {

namespace fs = std::filesystem;

bool ends_as(const fs::path& path, std::initializer_list<std::string_view> endings) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

bool is_picture(const fs::path& path) { return ends_as(path, {".jpg", ".jpeg"}); }

/// Such a one would be taken for a list, and its bytes for lines. Throws Error kInvalidArgument.
void refuse_other_pictures(const std::string& path) {
  std::error_code error;
  const bool is_other =
      ends_as(path, {".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif", ".npy"});
  if (!is_other || !fs::is_regular_file(path, error)) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{}: not a JPEG by its name; give a JPEG (.jpg, .jpeg), a folder, tar "
                          "shards or a list",
                          printable(path)));
}

/// In the order of their names; empty where it is no folder of pictures.
std::vector<std::string> pictures_below(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    return is_picture(path) ? std::vector{path} : std::vector<std::string>{};
  }
  std::vector<std::string> found;
  if (!fs::is_directory(path, error)) return found;
  fs::recursive_directory_iterator walk(path, fs::directory_options::follow_directory_symlink,
                                        error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    if (walk->is_regular_file() && is_picture(walk->path())) found.push_back(walk->path().string());
  }
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("{}: {}; make all of its folders readable",
                                            printable(path), error.message()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

PictureFiles::PictureFiles(const std::string& path, std::uint64_t limit)
    : files_(pictures_below(path)), backend_(storage::simple_backend()) {
  if (files_.empty()) {
    refuse_other_pictures(path);
    formats::OpenOptions format;
    format.store_index = formats::StoreIndex::kNever;  // Looking at shards leaves them as they are.
    dataset_ = formats::open_dataset({path}, format);
  }
  const std::uint64_t count = files_.empty() ? dataset_->size() : files_.size();
  const std::uint64_t taken = std::min(count, limit);
  for (std::uint64_t i = 0; i < taken; ++i) chosen_.push_back(i * count / taken);
}

PictureFiles::~PictureFiles() = default;

std::string PictureFiles::name(std::size_t i) const {
  return files_.empty() ? dataset_->where(chosen_[i]) : files_[chosen_[i]];
}

std::vector<std::byte> PictureFiles::read(std::size_t i) const {
  if (!files_.empty()) return read_whole_file(files_[chosen_[i]]);
  const std::uint64_t sample = chosen_[i];
  const formats::Place place = dataset_->place(sample);
  if (place.shard == formats::Place::kOwnFile) return read_whole_file(dataset_->path(sample));
  auto shard = backend_->open(dataset_->path(sample));
  if (!shard) raise(shard.error());
  return read_range(*backend_, **shard, place.offset_bytes, place.size_bytes);
}

}  // namespace feedrace::tools
