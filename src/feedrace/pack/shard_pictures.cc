// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/shard_pictures.h"

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/image_finder.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::pack {

ShardPictures::ShardPictures(const formats::ShardScan& scan,
                             const std::vector<std::string>& image_fields) {
  const formats::ImageFinder finder(scan, image_fields);
  members_.reserve(scan.sample_count());
  numbers_.reserve(scan.sample_count());
  for (std::size_t i = 0; i < scan.sample_count(); ++i) {
    members_.push_back(finder.member(i));
    numbers_.push_back(count_);
    if (members_.back()) ++count_;
  }
}

BadSample ShardPictures::describe(const formats::ShardScan& scan, const std::string& path,
                                  std::size_t sample) const {
  BadSample described;
  described.shard = path;
  described.key = scan.key(sample);
  const std::size_t member =
      members_[sample].value_or(static_cast<std::size_t>(scan.first_member[sample]));
  described.offset_bytes = scan.offset_bytes[member];
  described.size_bytes = scan.size_bytes[member];
  if (members_[sample]) described.sample = numbers_[sample];
  return described;
}

std::string where_of(const BadSample& sample, std::string_view field) {
  const std::string ending = field.empty() ? "" : "." + printable(field);
  return fmt::format("{}: sample {}{} (offset {}, {} bytes)",
                     printable(formats::base_name(sample.shard)), printable(sample.key), ending,
                     sample.offset_bytes, sample.size_bytes.value_or(0));
}

}  // namespace feedrace::pack
