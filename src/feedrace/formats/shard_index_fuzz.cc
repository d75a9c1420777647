// SPDX-License-Identifier: Apache-2.0
// Any files as a stored index. The input is a chain of files: a name's number, a size (3 bytes,
// little endian), that many bytes. Files that the input does not name are those of a good index.

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/formats/index_writer.h"
#include "feedrace/formats/shard_set.h"
#include "feedrace/formats/test_tar.h"

namespace {

using namespace feedrace::formats;

constexpr const char* kNames[] = {
    "meta.json", "shard.npy", "label.npy",  "label_state.npy", "first_member.npy", "key_begin.npy",
    "keys.npy",  "field.npy", "offset.npy", "size.npy",        "image_samples.npy"};
constexpr std::size_t kNameCount = std::size(kNames);

void check(bool holds) {
  if (!holds) std::abort();
}

/// Content of the files of a small, good index.
std::vector<std::string> good_files() {
  testing::TarText tar;
  tar.add("a.jpg", "xx").add("a.cls", "3").add("b.txt", "t").add("c.jpg", "y").end();
  const auto scan =
      scan_shard(testing::TextSource(tar.text()), "good.tar", {"auto", "label", nullptr});
  MemoryFiles files;
  auto writer = IndexWriter::create(files, "", {"jpg"});
  ShardScan with_identity = *scan;
  with_identity.identity = {tar.text().size(), 1, "0123456789abcdef"};
  check(static_cast<bool>((*writer)->append("good.tar", with_identity)));
  check(static_cast<bool>((*writer)->finish()));
  std::vector<std::string> contents;
  for (const char* name : kNames) {
    const auto fd = files.open(name);
    std::string content(1 << 16, '\0');
    content.resize(*read_at(fd->get(), name, 0, content));
    contents.push_back(content);
  }
  return contents;
}

void walk(const ShardSet& set) {
  constexpr std::uint64_t kMost = 1000;  // Of samples that a lying index may claim.
  for (std::uint64_t i = 0; i < std::min(set.size(), kMost); ++i) {
    const Place place = set.place(i);
    check(place.shard == 0);
    check(place.size_bytes <= set.index().meta().shards[0].identity.size_bytes);
    check(set.where(i).find('\n') == std::string::npos);
    (void)set.key(i);
    (void)set.label(i);
  }
  for (std::uint64_t i = 0; i < std::min(set.entry_count(), kMost); ++i) {
    check(set.fields(i).size() <= set.index().meta().member_count);
  }
  for (const Part& part : set.parts()) {
    check(part.first_sample <= set.size());
    check(part.digest.find('\n') == std::string::npos);
  }
  for (std::size_t i = 0; i < set.index().meta().shards.size(); ++i) {
    const auto scan = set.index().extract(i);
    if (scan) check(scan->sample_count() == set.index().meta().shards[i].sample_count);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::string> good = good_files();
  std::vector<std::string> contents = good;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (rest.size() >= 4) {
    const auto byte = [&](std::size_t i) {
      return std::size_t{static_cast<std::uint8_t>(rest[i])};
    };
    const std::size_t length = byte(1) | byte(2) << 8 | byte(3) << 16;
    contents[byte(0) % kNameCount] = rest.substr(4, length);
    rest.remove_prefix(std::min(rest.size(), 4 + length));
  }
  MemoryFiles files;
  for (std::size_t i = 0; i < kNameCount; ++i) {
    const auto fd = files.create(kNames[i]);
    check(fd && write_at(fd->get(), kNames[i], 0, contents[i]));
  }
  auto index = ShardIndex::open(files);
  if (!index) {
    check(index.error().message.find('\n') == std::string::npos);
    return 0;
  }
  if (index->meta().shards.size() != 1) return 0;
  feedrace::formats::OpenOptions options;
  options.image_fields = {"jpg"};
  walk(ShardSet({"/nonexistent/good.tar"}, *std::move(index), options, {}, "", "", {}));
  return 0;
}
