// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"

namespace feedrace::pack {
namespace {

using nlohmann::json;

constexpr std::uint64_t kVersion = 1;
constexpr const char* kFormat = "feedrace pack journal";

json left_out_json(const std::vector<Manifest::LeftOut>& left_out) {
  json list = json::array();
  for (const Manifest::LeftOut& one : left_out) {
    list.push_back({{"key", text_to_json(one.key)}, {"reason", text_to_json(one.reason)}});
  }
  return list;
}

std::string text_of(const json& value) {
  std::optional<std::string> text = text_from_json(value);
  if (!text) throw std::invalid_argument("no text");
  return *std::move(text);
}

std::vector<Manifest::LeftOut> left_out_of(const json& list) {
  std::vector<Manifest::LeftOut> left_out;
  for (const json& one : list) {
    left_out.push_back({text_of(one.at("key")), text_of(one.at("reason"))});
  }
  return left_out;
}

std::string head_line(const JournalHead& head) {
  const json line = {{"format", kFormat},
                     {"version", kVersion},
                     {"source", head.source},
                     {"sizes", head.sizes},
                     {"times", head.times},
                     {"options", json::parse(head.options)},
                     {"shards", head.shard_count},
                     {"samples", head.sample_count},
                     {"crop_index", head.makes_crop_index},
                     {"left_out", left_out_json(head.left_out)}};
  return line.dump() + "\n";
}

std::string shard_line(const JournalShard& shard) {
  const json line = {
      {"number", shard.number},           {"name", text_to_json(shard.shard.name)},
      {"size", shard.shard.size_bytes},   {"samples", shard.shard.sample_count},
      {"xxh3_128", shard.shard.xxh3_128}, {"left_out", left_out_json(shard.left_out)}};
  return line.dump() + "\n";
}

JournalHead head_of(const json& line) {
  if (line.at("format").get<std::string>() != kFormat) throw std::invalid_argument("none");
  if (line.at("version").get<std::uint64_t>() != kVersion) throw std::invalid_argument("version");
  JournalHead head;
  head.source = line.at("source").get<std::string>();
  head.sizes = line.at("sizes").get<std::string>();
  head.times = line.at("times").get<std::string>();
  head.options = line.at("options").dump();
  head.shard_count = line.at("shards").get<std::uint64_t>();
  head.sample_count = line.at("samples").get<std::uint64_t>();
  head.makes_crop_index = line.at("crop_index").get<bool>();
  head.left_out = left_out_of(line.at("left_out"));
  return head;
}

JournalShard shard_of(const json& line) {
  JournalShard shard;
  shard.number = line.at("number").get<std::uint64_t>();
  shard.shard = {text_of(line.at("name")), line.at("size").get<std::uint64_t>(),
                 line.at("samples").get<std::uint64_t>(), line.at("xxh3_128").get<std::string>()};
  shard.left_out = left_out_of(line.at("left_out"));
  return shard;
}

}  // namespace

std::string option_difference(const std::string& options, const std::string& other) {
  const json mine = json::parse(options).flatten();
  const json theirs = json::parse(other).flatten();
  json all = theirs;
  all.update(mine);
  const auto said = [](const json& from, const std::string& name) {
    const auto found = from.find(name);
    return found == from.end() ? std::string("not given") : printable(found->dump());
  };
  for (const auto& [path, value] : all.items()) {
    if (mine.value(path, json()) == theirs.value(path, json())) continue;
    std::string name = path.substr(1);  // "/pictures/raw".
    std::replace(name.begin(), name.end(), '/', '.');
    return fmt::format("{} is {}, and was {}", printable(name), said(mine, path),
                       said(theirs, path));
  }
  return "";
}

std::string JournalHead::difference(const JournalHead& other, bool is_same_run) const {
  // What is made of the sources comes behind them.
  if (source != other.source || sample_count != other.sample_count) {
    return "samples came, went or changed their labels";
  }
  if (std::string different = option_difference(options, other.options); !different.empty()) {
    return different;
  }
  if (makes_crop_index != other.makes_crop_index) {
    return fmt::format("crop_index is {}, and was {}", makes_crop_index, other.makes_crop_index);
  }
  if (sizes != other.sizes || shard_count != other.shard_count) return "files changed their size";
  if (is_same_run && times != other.times) return "files were written anew since";
  return "";
}

Result<JournalContent> JournalContent::parse(std::string_view text) {
  const auto corrupt = [] {
    return Failure{ErrorCode::kCorruptData, "is damaged, or of another version of feedrace"};
  };
  JournalContent content;
  bool is_head = true;
  try {
    for (std::size_t end = text.find('\n'); end != std::string_view::npos;
         end = text.find('\n', content.size_bytes)) {
      const json line =
          parse_shallow_json(text.substr(content.size_bytes, end - content.size_bytes));
      if (std::exchange(is_head, false)) {
        content.head = head_of(line);
      } else {
        JournalShard shard = shard_of(line);
        content.shards.insert_or_assign(shard.number, std::move(shard));
      }
      content.size_bytes = end + 1;
    }
  } catch (const std::exception&) {  // Of JSON, or of what it is not.
    return corrupt();
  }
  if (is_head) return corrupt();
  return content;
}

Result<Journal> Journal::open(const PackFolder& folder, const PackPart& part,
                              const JournalHead& head, const JournalContent* content) {
  const std::string name = journal_name(part);
  if (content == nullptr) {
    if (Result<void> written = folder.write(part, name, head_line(head)); !written) {
      return written.error();
    }
  }
  formats::Fd fd(openat(folder.fd(), name.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return formats::system_failure(folder.path_of(name), "create", errno);
  const std::uint64_t size = content == nullptr ? head_line(head).size() : content->size_bytes;
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return formats::system_failure(folder.path_of(name), "truncate", errno);
  }
  return Journal(std::move(fd), folder.path_of(name), size);
}

Result<void> Journal::add(const JournalShard& shard) { return append(shard_line(shard)); }

Result<void> Journal::append(const std::string& line) {
  Result<void> written = formats::write_at(fd_.get(), path_, size_bytes_, line);
  if (written && fdatasync(fd_.get()) != 0) {
    written = formats::system_failure(path_, "fsync", errno);
  }
  if (written) size_bytes_ += line.size();
  return written;
}

}  // namespace feedrace::pack
