// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "feedrace/formats/tar_reader.h"

namespace feedrace::formats::testing {

/// Writes archives for tests, header by header, so that any field can be wrong on purpose.
class TarText {
 public:
  struct Options {
    char type = '0';
    std::string size_field{};  ///< 12 bytes; empty: the content's size in octal.
    std::string magic = std::string(
        "ustar\0"
        "00",
        8);
    std::string prefix{};
    bool break_checksum = false;
  };

  TarText& add(std::string_view name, std::string_view content) { return add(name, content, {}); }
  TarText& add(std::string_view name, std::string_view content, const Options& options) {
    text_ += header(name, content.size(), options);
    text_ += content;
    text_.resize((text_.size() + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes, '\0');
    return *this;
  }
  TarText& raw(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }
  TarText& end() {
    text_.append(2 * kTarBlockBytes, '\0');
    return *this;
  }
  const std::string& text() const { return text_; }

  static std::string header(std::string_view name, std::size_t size, const Options& options) {
    std::string block(kTarBlockBytes, '\0');
    block.replace(0, name.size(), name);
    block.replace(100, 24,
                  std::string("0000644\0"
                              "0000000\0"
                              "0000000\0",
                              24));
    const std::string size_field =
        options.size_field.empty() ? fmt::format("{:011o}", size) : options.size_field;
    block.replace(124, size_field.size(), size_field);
    block.replace(136, 11, "14724163000");
    block[156] = options.type;
    block.replace(257, options.magic.size(), options.magic);
    block.replace(345, options.prefix.size(), options.prefix);
    block.replace(148, 8, "        ");
    std::uint32_t sum = options.break_checksum ? 1 : 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    block.replace(148, 7, fmt::format("{:06o}", sum) + std::string(1, '\0'));
    return block;
  }

 private:
  std::string text_;
};

/// "LENGTH KEY=VALUE\n", the length counting itself.
inline std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t bare = key.size() + value.size() + 3;
  std::size_t length = bare + 1;
  while (length != bare + fmt::format("{}", length).size()) {
    length = bare + fmt::format("{}", length).size();
  }
  return fmt::format("{} {}={}\n", length, key, value);
}

/// An archive in memory.
class TextSource : public ByteSource {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  std::uint64_t size_bytes() const noexcept override { return text_.size(); }
  Result<std::size_t> read(std::uint64_t offset_bytes, std::span<char> out) const override {
    const std::size_t begin =
        std::min<std::size_t>(text_.size(), static_cast<std::size_t>(offset_bytes));
    const std::size_t count = std::min(out.size(), text_.size() - begin);
    std::copy_n(text_.data() + begin, count, out.data());
    ++read_count;
    read_bytes += count;
    return count;
  }

  mutable std::size_t read_count = 0;
  mutable std::size_t read_bytes = 0;

 private:
  std::string text_;
};

}  // namespace feedrace::formats::testing
