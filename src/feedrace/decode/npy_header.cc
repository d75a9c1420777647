// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/npy_header.h"

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/decode/bytes.h"

namespace feedrace::decode {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kVersionBytes = 2;
constexpr std::size_t kMaxDictionaryBytes = 10'000;
constexpr std::size_t kMaxExtents = 64;  // As NumPy 2 has it.

Failure bad(const std::string& found) {
  return {ErrorCode::kCorruptData,
          ".npy header: " + found + "; write the array again with numpy.save"};
}

struct Fields {
  std::optional<std::string> descr;
  std::optional<bool> is_fortran;
  std::optional<std::vector<std::int64_t>> shape;
};

/// Reads what Python prints of {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}: strings
/// without escapes, the two truths, tuples of whole numbers, and nothing else.
class DictionaryReader {
 public:
  explicit DictionaryReader(std::string_view text) : text_(text) {}

  Result<Fields> read() {
    Fields fields;
    if (!take('{')) return malformed();
    while (!take('}')) {
      const auto key = string();
      if (!key || !take(':')) return malformed();
      if (auto taken = take_value(*key, fields); !taken) return taken.error();
      if (!take(',') && peek() != '}') return malformed();
    }
    skip_space();
    if (at_ != text_.size()) return malformed();
    if (!fields.descr || !fields.is_fortran || !fields.shape) {
      return bad("it has not all of descr, fortran_order and shape");
    }
    return fields;
  }

 private:
  Result<void> take_value(std::string_view key, Fields& fields) {
    if (key == "descr" && !fields.descr) {
      if (peek() == '[') {
        return Failure{ErrorCode::kCorruptData,
                       ".npy header: the array is of records; save one plain array a sample"};
      }
      fields.descr = string();
      if (fields.descr) return {};
    } else if (key == "fortran_order" && !fields.is_fortran) {
      fields.is_fortran = truth();
      if (fields.is_fortran) return {};
    } else if (key == "shape" && !fields.shape) {
      fields.shape = tuple();
      if (fields.shape) return {};
    }
    return malformed();
  }

  Failure malformed() const {
    constexpr std::size_t kShown = 40;
    return bad(fmt::format("\"{}\" at byte {} of its dictionary can't be read",
                           printable(text_.substr(std::min(at_, text_.size()), kShown)), at_));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    skip_space();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  std::optional<std::string> string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  std::optional<bool> truth() {
    if (take("True")) return true;
    if (take("False")) return false;
    return std::nullopt;
  }

  std::optional<std::vector<std::int64_t>> tuple() {
    std::vector<std::int64_t> values;
    if (!take('(')) return std::nullopt;
    while (!take(')')) {
      skip_space();
      std::int64_t value = 0;
      const char* end = text_.data() + text_.size();
      const auto [stop, error] = std::from_chars(text_.data() + at_, end, value);
      if (error != std::errc() || value < 0 || values.size() == kMaxExtents) return std::nullopt;
      at_ = static_cast<std::size_t>(stop - text_.data());
      take('L');  // Python 2 wrote so.
      values.push_back(value);
      if (take(',')) continue;
      // (3) is a number in brackets, no tuple.
      if (peek() != ')' || values.size() == 1) return std::nullopt;
    }
    return values;
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

/// Length and begin of the dictionary.
Result<std::pair<std::size_t, std::size_t>> find_dictionary(std::span<const std::byte> bytes) {
  const std::size_t length_at = kMagic.size() + kVersionBytes;
  if (!holds(bytes, 0, kMagic)) {
    return Failure{ErrorCode::kCorruptData,
                   "it is no .npy array: it begins with other bytes than \\x93NUMPY; write it with "
                   "numpy.save, or give dtype and shape of plain numbers"};
  }
  if (bytes.size() < length_at) return bad(fmt::format("it ends behind {} bytes", bytes.size()));
  const std::uint32_t major = byte_at(bytes, kMagic.size());
  const std::uint32_t minor = byte_at(bytes, kMagic.size() + 1);
  if (major < 1 || major > 3 || minor != 0) {
    return bad(fmt::format("its version is {}.{}, and 1.0, 2.0 and 3.0 are known", major, minor));
  }
  const std::size_t begin = length_at + (major == 1 ? 2 : 4);
  if (bytes.size() < begin) return bad(fmt::format("it ends behind {} bytes", bytes.size()));
  const std::size_t length = major == 1 ? little16(bytes, length_at) : little32(bytes, length_at);
  if (length > kMaxDictionaryBytes) {
    return bad(
        fmt::format("it has {} bytes, and at most {} are read", length, kMaxDictionaryBytes));
  }
  if (length > bytes.size() - begin) {
    return bad(fmt::format("it has {} bytes, and the sample ends behind {} of them", length,
                           bytes.size() - begin));
  }
  return std::pair(length, begin);
}

Result<DType> dtype_of(const std::string& descr) {
  if (descr == "<f4") return DType::kFloat32;
  if (descr == "<f2") return DType::kFloat16;
  if (descr == "<i8") return DType::kInt64;
  if (descr == "|u1" || descr == "<u1") return DType::kUint8;
  const char* what = "are not delivered";
  if (descr.starts_with('>')) what = "are big endian";
  if (descr.find('O') != std::string::npos) what = "are Python objects";
  return Failure{ErrorCode::kCorruptData,
                 fmt::format(".npy header: values of \"{}\" {}; save the array as uint8, or as "
                             "little-endian float16, float32 or int64 (astype)",
                             printable(descr), what)};
}

}  // namespace

Result<NpyHeader> read_npy_header(std::span<const std::byte> bytes) {
  const auto found = find_dictionary(bytes);
  if (!found) return found.error();
  const auto [length, begin] = *found;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + begin, length);
  auto fields = DictionaryReader(text).read();
  if (!fields) return fields.error();
  const auto dtype = dtype_of(*fields->descr);
  if (!dtype) return dtype.error();
  const bool is_turned = *fields->is_fortran && fields->shape->size() > 1;
  if (is_turned) {
    return Failure{
        ErrorCode::kCorruptData,
        ".npy header: the array is in Fortran order; save numpy.ascontiguousarray of it"};
  }
  return NpyHeader{*dtype, *std::move(fields->shape), begin + length};
}

}  // namespace feedrace::decode
