// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/npy.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::formats {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr std::size_t kWriteBytes = std::size_t{256} << 10;
/// Magic, version, and the 16-bit length of the dictionary behind it.
constexpr std::size_t kPreludeBytes = 10;

/// The number of values if `header` (the whole of it) is one-dimensional and of `type`.
std::optional<std::uint64_t> parse_shape(std::string_view dictionary, std::string_view type) {
  const bool right_type = dictionary.find(fmt::format("'descr': '{}'", type)) != std::string::npos;
  const bool c_order = dictionary.find("'fortran_order': False") != std::string::npos;
  constexpr std::string_view kShape = "'shape': (";
  const std::size_t at = dictionary.find(kShape);
  if (!right_type || !c_order || at == std::string_view::npos) return std::nullopt;
  const char* end = dictionary.data() + dictionary.size();
  std::uint64_t count = 0;
  const auto [stop, error] = std::from_chars(dictionary.data() + at + kShape.size(), end, count);
  if (error != std::errc() || end - stop < 2 || stop[0] != ',' || stop[1] != ')')
    return std::nullopt;
  return count;
}

std::size_t bytes_of(std::string_view type) noexcept {
  return static_cast<std::size_t>(type.back() - '0');
}

Failure corrupt(const std::string& path, std::string_view what) {
  return {ErrorCode::kCorruptData, fmt::format("{}: {}", printable(path), what)};
}

/// The header behind magic, version and length.
Result<std::string> read_dictionary(int fd, const std::string& path) {
  std::array<char, kPreludeBytes> prelude{};
  const Result<std::size_t> got = read_at(fd, path, 0, prelude);
  if (!got) return got.error();
  const std::string_view start(prelude.data(), *got);
  if (start.size() < kPreludeBytes || !start.starts_with(kMagic)) {
    return corrupt(path, "not a .npy file of format 1.0");
  }
  const std::size_t bytes = static_cast<unsigned char>(prelude[8]) |
                            std::size_t{static_cast<unsigned char>(prelude[9])} << 8;
  std::string dictionary(bytes, '\0');
  const Result<std::size_t> read = read_at(fd, path, kPreludeBytes, dictionary);
  if (!read) return read.error();
  if (*read < bytes) return corrupt(path, "cut in its header");
  return dictionary;
}

}  // namespace

std::string npy_header(std::string_view type, std::uint64_t count) {
  std::string header(kMagic);
  const std::size_t dictionary_bytes = kNpyHeaderBytes - kPreludeBytes;
  header.push_back(static_cast<char>(dictionary_bytes));
  header.push_back('\0');
  header += fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}", type, count);
  header.resize(kNpyHeaderBytes - 1, ' ');
  header.push_back('\n');
  return header;
}

NpyWriter::NpyWriter(Fd fd, std::string path, std::string_view type)
    : fd_(std::move(fd)), path_(std::move(path)), type_(type) {}

Result<void> NpyWriter::append(std::string_view bytes) {
  buffer_ += bytes;
  return buffer_.size() < kWriteBytes ? Result<void>{} : flush();
}

Result<void> NpyWriter::flush() {
  Result<void> written = write_at(fd_.get(), path_, written_bytes_, buffer_);
  written_bytes_ += buffer_.size();
  buffer_.clear();
  return written;
}

Result<void> NpyWriter::finish() {
  if (Result<void> flushed = flush(); !flushed) return flushed;
  return write_at(fd_.get(), path_, 0, npy_header(type_, count_));
}

Result<std::string> npy_type_of(int fd, const std::string& path) {
  const Result<std::string> dictionary = read_dictionary(fd, path);
  if (!dictionary) return dictionary.error();
  constexpr std::string_view kName = "'descr': '";
  const std::size_t at = dictionary->find(kName);
  const std::size_t begin = at == std::string::npos ? at : at + kName.size();
  const std::size_t end = dictionary->find('\'', begin);
  if (at == std::string::npos || end == std::string::npos) {
    return corrupt(path, "not an array of plain numbers");
  }
  return dictionary->substr(begin, end - begin);
}

Result<NpyMap> NpyMap::map(int fd, const std::string& path, std::string_view type) {
  struct stat status{};
  if (fstat(fd, &status) != 0) return system_failure(path, "stat", errno);
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  const Result<std::string> dictionary = read_dictionary(fd, path);
  if (!dictionary) return dictionary.error();
  const auto count = parse_shape(*dictionary, type);
  if (!count) return corrupt(path, fmt::format("not a one-dimensional array of {}", type));
  const std::size_t data_at = kPreludeBytes + dictionary->size();
  const std::size_t value_bytes = bytes_of(type);
  // A mapping begins on a page, so values are aligned when their offset is.
  if (data_at % value_bytes != 0) return corrupt(path, "data not aligned");
  if (*count > (file_bytes - data_at) / value_bytes) {
    return corrupt(path, fmt::format("cut: {} values of {} bytes do not fit a file of {} bytes",
                                     *count, value_bytes, file_bytes));
  }
  NpyMap map;
  map.mapped_bytes_ = data_at + static_cast<std::size_t>(*count) * value_bytes;
  void* memory = mmap(nullptr, map.mapped_bytes_, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return system_failure(path, "mmap", errno);
  map.memory_ = memory;
  map.data_at_ = data_at;
  map.count_ = *count;
  return map;
}

NpyMap::~NpyMap() {
  if (memory_ != nullptr) munmap(memory_, mapped_bytes_);
}

}  // namespace feedrace::formats
