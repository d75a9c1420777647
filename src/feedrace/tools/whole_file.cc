// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/whole_file.h"

#include <array>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/storage/backends.h"

namespace feedrace::tools {
namespace {

// As the loader: 1 GiB.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

}  // namespace

std::vector<std::byte> read_range(storage::Backend& backend, const storage::File& file,
                                  std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  const std::uint64_t file_bytes = file.size_bytes();
  if (offset_bytes > file_bytes || size_bytes > file_bytes - offset_bytes) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("{}: {} bytes at offset {} reach behind the end at {}; the file was cut "
                    "short: copy it again",
                    printable(file.uri()), size_bytes, offset_bytes, file_bytes));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(size_bytes));
  storage::ReadRequest request;
  request.file = &file;
  request.offset_bytes = offset_bytes;
  request.destination = bytes;
  backend.submit({&request, 1});
  std::array<storage::Completion, 1> done;
  while (backend.wait(done, 1) == 0) {
  }
  if (!done[0].bytes_read) raise(done[0].bytes_read.error());
  bytes.resize(*done[0].bytes_read);
  return bytes;
}

std::vector<std::byte> read_whole_file(const std::string& path) {
  const auto backend = storage::simple_backend();
  auto file = backend->open(path);
  if (!file) raise(file.error());
  if ((*file)->size_bytes() > kMaxFileBytes) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("{}: {} bytes, more than the {} that a picture may have; check what it is",
                    printable(path), (*file)->size_bytes(), kMaxFileBytes));
  }
  return read_range(*backend, **file, 0, (*file)->size_bytes());
}

std::string read_whole_text(const std::string& path) {
  const auto bytes = read_whole_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace feedrace::tools
