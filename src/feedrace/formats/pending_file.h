// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "feedrace/error.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::formats {

/// "path: write: No space left on device; free space, or write elsewhere" as kIo: what to do
/// follows from the error.
Failure write_failure(const std::string& path, const char* call, int error_number);

/// A new file on its way into its place: written under a name of its own, and renamed when it is on
/// the disk. Until then, and if it is dropped, what was there stays, and nothing of the new one
/// does. All failures are those of `write_failure`.
class PendingFile {
 public:
  /// Written beside `path`, under a name that no other writer has. What is there and is no regular
  /// file, such as a pipe or /dev/stdout, is written to where it is.
  static Result<PendingFile> create(const std::string& path);
  /// A file of an open folder, whose path is `folder`; `temporary` is written over where a run that
  /// died left it. `folder_fd` outlives the object.
  static Result<PendingFile> create_in(int folder_fd, const std::string& folder,
                                       const std::string& name, std::string temporary);
  PendingFile(PendingFile&& other) noexcept
      : folder_fd_(other.folder_fd_),
        path_(std::move(other.path_)),
        name_(std::move(other.name_)),
        temporary_(std::exchange(other.temporary_, {})),
        fd_(std::move(other.fd_)) {}
  PendingFile& operator=(PendingFile&&) = delete;
  ~PendingFile();

  Result<void> append(std::string_view bytes);
  /// For other calls on the file.
  int fd() const noexcept { return fd_.get(); }
  Failure failure(const char* call, int error_number) const {
    return write_failure(path_, call, error_number);
  }

  /// Puts it in place; it is on the disk, under its name, when this returns.
  Result<void> publish();

 private:
  PendingFile(int folder_fd, std::string path, std::string name, std::string temporary, Fd fd)
      : folder_fd_(folder_fd),
        path_(std::move(path)),
        name_(std::move(name)),
        temporary_(std::move(temporary)),
        fd_(std::move(fd)) {}

  Result<void> sync_folder() const;

  int folder_fd_;     // That names are relative to, or AT_FDCWD.
  std::string path_;  // For messages.
  std::string name_;
  std::string temporary_;  // Empty: there is none, or none any more.
  Fd fd_;
};

/// A file with all of `content`, by `PendingFile`.
Result<void> put_file(const std::string& path, std::string_view content);

/// Whether a `PendingFile` could be put in place there, before what it is to hold is found out,
/// which may take hours. Leaves nothing.
Result<void> check_writable(const std::string& path);

}  // namespace feedrace::formats
