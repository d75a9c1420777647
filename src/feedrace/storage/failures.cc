// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/failures.h"

#include <cerrno>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::storage {
namespace {

ErrorCode code_of(int error_number) noexcept {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return ErrorCode::kNotFound;
    case ECANCELED:
      return ErrorCode::kCancelled;
    case EMFILE:
    case ENFILE:
      return ErrorCode::kUnsupported;  // The process's fault, not the file's.
    default:
      return ErrorCode::kIo;
  }
}

std::string_view remedy_of(int error_number) noexcept {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return "check the path";
    case EACCES:
    case EPERM:
      return "let this user read the file and enter every folder above it";
    case EISDIR:
      return "give a file, not a folder";
    case EINVAL:
    case ESPIPE:
    case EAGAIN:
    case ENXIO:
      return "give a regular file";
    case EMFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENFILE:
      return "raise the sysctl fs.file-max";
    case ENOMEM:
      return "free memory, or lower the queue depth";
    case ESTALE:
      return "the file was replaced on its server: start again";
    case ECANCELED:
      return "nothing is wrong, reading was stopped";
    default:
      return "look at the device and the kernel log (dmesg), then try again";
  }
}

template <typename Write>
Failure failure_of(ErrorCode code, Write write) noexcept {
  try {
    return {code, write()};
  } catch (...) {
    return {code, {}};
  }
}

}  // namespace

Failure open_failure(std::string_view name, std::string_view call, int error_number) noexcept {
  return failure_of(code_of(error_number), [&] {
    return fmt::format("{}: can't be opened ({}); {}", printable(name),
                       errno_text(call, error_number), remedy_of(error_number));
  });
}

Failure read_failure(std::string_view name, std::uint64_t offset_bytes, std::size_t size_bytes,
                     std::string_view call, int error_number) noexcept {
  return failure_of(code_of(error_number), [&] {
    return fmt::format("{}: reading {} bytes at offset {} failed ({}); {}", printable(name),
                       size_bytes, offset_bytes, errno_text(call, error_number),
                       remedy_of(error_number));
  });
}

Failure named_failure(ErrorCode code, std::string_view name, std::string_view what) noexcept {
  return failure_of(code, [&] { return fmt::format("{}: {}", printable(name), what); });
}

}  // namespace feedrace::storage
