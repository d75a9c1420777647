// SPDX-License-Identifier: Apache-2.0
// Any bytes as a shard: members lie inside it, samples agree with themselves.

#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "feedrace/formats/shard_scan.h"
#include "feedrace/formats/test_tar.h"

namespace {

/// Fails also where asserts are off.
void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace feedrace::formats;
  const testing::TextSource source(std::string(reinterpret_cast<const char*>(data), size));
  TarReader reader(source, "fuzz.tar");
  TarMember member;
  std::uint64_t last = 0;
  std::size_t members = 0;
  while (true) {
    const auto found = reader.next(member);
    if (!found) check(found.error().message.find('\n') == std::string::npos);
    if (!found || !*found) break;
    check(member.data_offset_bytes > last);
    check(member.size_bytes <= size && member.data_offset_bytes <= size - member.size_bytes);
    last = member.data_offset_bytes;
    ++members;
  }
  const auto scan = scan_shard(source, "fuzz.tar", {"auto", "label", nullptr});
  if (!scan) return 0;
  check(scan->member_count() <= members);
  check(scan->first_member.back() == scan->member_count());
  check(scan->key_begin.back() == scan->keys.size());
  for (std::size_t i = 0; i < scan->sample_count(); ++i) {
    check(scan->first_member[i] < scan->first_member[i + 1]);
    check(i == 0 || scan->key(i) != scan->key(i - 1));
  }
  return 0;
}
