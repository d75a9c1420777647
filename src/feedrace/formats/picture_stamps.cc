// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/picture_stamps.h"

#include <sys/stat.h>

#include <span>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::formats {
namespace {

constexpr std::string_view kSizeType = npy_type<std::uint64_t>();
constexpr std::string_view kTimeType = npy_type<std::int64_t>();

Result<NpyMap> map_file(const IndexFiles& files, const std::string& name, std::string_view type) {
  const Result<Fd> fd = files.open(name);
  if (!fd) return fd.error();
  return NpyMap::map(fd->get(), files.path(name), type);
}

}  // namespace

PictureStamp stamp_of(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return {};
  return {static_cast<std::uint64_t>(status.st_size), mtime_ns(status)};
}

Result<PictureStamps> PictureStamps::map(const IndexFiles& files, std::uint64_t file_count) {
  PictureStamps stamps;
  Result<NpyMap> size = map_file(files, kSizeFile, kSizeType);
  if (!size) return size.error();
  Result<NpyMap> time = map_file(files, kTimeFile, kTimeType);
  if (!time) return time.error();
  stamps.size_ = *std::move(size);
  stamps.time_ = *std::move(time);
  if (stamps.size_.count() == file_count && stamps.time_.count() == file_count) return stamps;
  return Failure{ErrorCode::kCorruptData,
                 fmt::format("{}: not the sizes of {} files", printable(files.path(kSizeFile)),
                             with_commas(file_count))};
}

PictureStamp PictureStamps::of(std::uint64_t file) const noexcept {
  const auto at = static_cast<std::size_t>(file);
  if (file >= size_.count() || file >= time_.count()) return {};
  return {size_.values<std::uint64_t>()[at], time_.values<std::int64_t>()[at]};
}

Result<PictureStampsWriter> PictureStampsWriter::create(IndexFiles& files) {
  Result<Fd> size = files.create(PictureStamps::kSizeFile);
  if (!size) return size.error();
  Result<Fd> time = files.create(PictureStamps::kTimeFile);
  if (!time) return time.error();
  return PictureStampsWriter(
      NpyWriter(*std::move(size), files.path(PictureStamps::kSizeFile), kSizeType),
      NpyWriter(*std::move(time), files.path(PictureStamps::kTimeFile), kTimeType));
}

Result<void> PictureStampsWriter::append(const std::vector<PictureStamp>& piece) {
  std::vector<std::uint64_t> sizes;
  std::vector<std::int64_t> times;
  for (const PictureStamp& stamp : piece) {
    sizes.push_back(stamp.size_bytes);
    times.push_back(stamp.mtime_ns);
  }
  Result<void> put = size_.append(std::span<const std::uint64_t>(sizes));
  if (!put) return put;
  return time_.append(std::span<const std::int64_t>(times));
}

Result<void> PictureStampsWriter::finish() {
  const Result<void> finished = size_.finish();
  return finished ? time_.finish() : finished;
}

}  // namespace feedrace::formats
