// SPDX-License-Identifier: Apache-2.0
// Any text as a label, a JSON label and each kind of list. The first byte chooses.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "feedrace/formats/file_list.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/shard_sources.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void parse_as_list(std::string_view text, const std::string& path) {
  try {
    const auto entries = feedrace::formats::parse_list(text, path);
    check(entries.size() > 0);
    check(entries.labels.empty() || entries.labels.size() == entries.size());
    for (std::uint64_t i = 0; i < entries.size(); ++i) {
      check(!entries.path(i).empty() && entries.path(i).find('\0') == std::string_view::npos);
    }
  } catch (const feedrace::Error& error) {
    check(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace feedrace::formats;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'c':
      parse_as_list(text, "fuzz.csv");
      break;
    case 'j':
      parse_as_list(text, "fuzz.jsonl");
      break;
    case 't':
      parse_as_list(text, "fuzz.txt");
      break;
    case 'l': {
      const auto label = parse_label(text);
      if (label) check(*parse_label(std::to_string(*label)) == *label);
      break;
    }
    case 'b':
      if (text.size() < 64 && text.find("..") == std::string_view::npos)
        check(!expand_braces(text).empty());
      break;
    default: {
      const auto label = parse_json_label(text, "label");
      if (!label) check(label.error().message.find('\n') == std::string::npos);
    }
  }
  return 0;
}
