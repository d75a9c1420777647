// SPDX-License-Identifier: Apache-2.0
// Indexes of DALI's readers.webdataset, as its program wds2idx writes them: "v1.2 SAMPLES", then a
// line a sample of "EXTENSION OFFSET SIZE NAME" a member; v1.1 has no NAME.

#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/exchange/dali_export.h"
#include "feedrace/exchange/foreign_index.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::exchange {
namespace {

/// Words of a line, as C++ streams and DALI itself take them apart.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  std::optional<std::string_view> next() {
    constexpr std::string_view kBlanks = " \t\r\v\f";
    const std::size_t begin = rest_.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return std::nullopt;
    rest_.remove_prefix(begin);
    const std::string_view word = rest_.substr(0, rest_.find_first_of(kBlanks));
    rest_.remove_prefix(word.size());
    return word;
  }

 private:
  std::string_view rest_;
};

std::optional<std::uint64_t> number_of(std::optional<std::string_view> word) {
  std::uint64_t value = 0;
  if (!word) return std::nullopt;
  const auto [end, error] = std::from_chars(word->data(), word->data() + word->size(), value);
  if (error != std::errc() || end != word->data() + word->size()) return std::nullopt;
  return value;
}

/// One .idx file.
class IdxFile {
 public:
  IdxFile(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {}

  Result<ForeignShard> parse() {
    std::string_view rest(text_);
    const std::string_view head = take_line(rest);
    Words words(head);
    const std::optional<std::string_view> version = words.next();
    if (version != "v1.2") {
      return wrong(fmt::format("line 1 begins with {:?}, not v1.2; make it anew with wds2idx",
                               printable(head.substr(0, kShownBytes))));
    }
    const std::optional<std::uint64_t> count = number_of(words.next());
    if (!count)
      return wrong("line 1 has no number of samples behind v1.2; make it anew with wds2idx");
    ForeignShard shard;  // Its lines are counted here, and members compared with the shard.
    shard.members.emplace();
    for (std::uint64_t i = 0; i < *count; ++i) {
      if (rest.empty())
        return wrong(
            fmt::format("line {}: it ends after {} of {} samples; make it anew with "
                        "wds2idx",
                        i + 2, i, *count));
      const Result<void> taken = take_sample(take_line(rest), i, *shard.members);
      if (!taken) return taken.error();
    }
    if (rest.find_first_not_of(" \t\r\n") != std::string_view::npos) {
      return wrong(
          fmt::format("line {}: more lines than the {} samples it says; make it anew "
                      "with wds2idx",
                      *count + 2, *count));
    }
    return shard;
  }

 private:
  static constexpr std::size_t kShownBytes = 20;

  static std::string_view take_line(std::string_view& rest) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    return line;
  }

  Result<void> take_sample(std::string_view line, std::uint64_t sample,
                           std::vector<ForeignMember>& members) const {
    Words words(line);
    const std::size_t before = members.size();
    while (const auto extension = words.next()) {
      const auto offset = number_of(words.next());
      const auto size = number_of(words.next());
      const auto name = words.next();
      if (!offset || !size || !name) return no_sample(sample);
      if (*extension != extension_of(*name)) {
        return wrong(
            fmt::format("line {}: extension {:?} of {}, whose name says another; make it "
                        "anew with wds2idx",
                        sample + 2, printable(*extension), printable(*name)));
      }
      members.push_back({std::string(*name), *offset, *size, sample});
    }
    return members.size() > before ? Result<void>() : no_sample(sample);
  }

  /// As wds2idx cuts names: of one without a dot, all.
  static std::string_view extension_of(std::string_view name) {
    const std::size_t slash = name.rfind('/');
    const std::size_t dot = name.find('.', slash == std::string_view::npos ? 0 : slash + 1);
    return dot == std::string_view::npos ? name : name.substr(dot + 1);
  }

  Failure no_sample(std::uint64_t sample) const {
    return wrong(
        fmt::format("line {} is no sample: \"EXTENSION OFFSET SIZE NAME\" a member, "
                    "none with blanks",
                    sample + 2));
  }

  Failure wrong(const std::string& what) const {
    return {ErrorCode::kCorruptData, fmt::format("{}: {}", printable(path_), what)};
  }

  const std::string path_;
  const std::string text_;
};

class DaliIndex : public ForeignIndex {
 public:
  explicit DaliIndex(std::string folder) : folder_(std::move(folder)) {}

  std::string_view kind() const noexcept override { return "DALI"; }
  const std::vector<std::string>& shard_names() const noexcept override { return no_names_; }

  Result<ForeignShard> shard(const std::string& path) const override {
    const std::string file = folder_ + "/" + dali_index_name(formats::base_name(path));
    std::error_code error;
    if (!std::filesystem::exists(file, error)) {
      return Failure{ErrorCode::kNotFound,
                     fmt::format("{}: not there, and {} has no other index; make it with wds2idx",
                                 printable(file), printable(path))};
    }
    const std::uintmax_t shard_bytes = std::filesystem::file_size(path, error);
    if (error) return formats::system_failure(path, "stat", error.value());
    Result<std::string> text = read_index_text(file, most_bytes(shard_bytes));
    if (!text) return text.error();
    return IdxFile(file, *std::move(text)).parse();
  }

 private:
  /// A member has a header of 512 bytes in the shard and its name, which is here twice at most.
  static std::uint64_t most_bytes(std::uint64_t shard_bytes) noexcept {
    constexpr std::uint64_t kHeadBytes = 4096;
    return 2 * shard_bytes + kHeadBytes;
  }

  const std::string folder_;
  const std::vector<std::string> no_names_;
};

}  // namespace

std::string dali_index_name(const std::string& shard_name) {
  // Up to the first dot behind the first byte, as wds2idx names them.
  return shard_name.substr(0, shard_name.find('.', 1)) + ".idx";
}

std::unique_ptr<ForeignIndex> open_dali_index(const std::string& folder) {
  return std::make_unique<DaliIndex>(folder);
}

}  // namespace feedrace::exchange
