// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/shard_crops.h"

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/image_finder.h"
#include "feedrace/formats/parallel.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::formats {
namespace {

/// A size that lies is no reason to ask for memory.
constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;

Result<MadeCropIndex> index_member(int fd, const std::string& path, std::uint64_t offset_bytes,
                                   std::uint64_t size_bytes) {
  if (size_bytes > kMaxImageBytes) return MadeCropIndex{{}, "too large"};
  std::string encoded(static_cast<std::size_t>(size_bytes), '\0');
  const Result<std::size_t> got = read_at(fd, path, offset_bytes, encoded);
  if (!got) return got.error();
  if (*got == encoded.size()) return crop_index_of(encoded);
  return Failure{ErrorCode::kCorruptData,
                 fmt::format("{}: ends within the image at byte {}; did it change meanwhile?",
                             printable(path), offset_bytes)};
}

}  // namespace

Result<void> add_crop_indexes(const std::string& path, const std::vector<std::string>& image_fields,
                              std::size_t thread_count, CropCounter& counter, ShardScan& scan) {
  const Result<Fd> fd = open_for_reading(path);
  if (!fd) return fd.error();
  const ImageFinder images(scan, image_fields);
  std::vector<Result<MadeCropIndex>> made(scan.sample_count(), MadeCropIndex());
  parallel_for(made.size(), thread_count, [&](std::size_t i) {
    const std::optional<std::size_t> member = images.member(i);
    if (!member) return;
    const std::uint64_t size_bytes = scan.size_bytes[*member];
    made[i] = index_member(fd->get(), path, scan.offset_bytes[*member], size_bytes);
    counter.add(1, size_bytes);
  });
  CropIndexes crops;
  for (const Result<MadeCropIndex>& one : made) {
    if (!one) return one.error();
    crops.append(*one);
  }
  scan.crops = std::move(crops);
  return {};
}

}  // namespace feedrace::formats
