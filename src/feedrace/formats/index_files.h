// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "feedrace/error.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::formats {

/// The files of one index: a folder on disk, or memory where no folder can be written.
class IndexFiles {
 public:
  virtual ~IndexFiles() = default;
  /// A new, empty file for reading and writing. Failure: kIo.
  virtual Result<Fd> create(const std::string& name) = 0;
  /// Never waits. Failures: kNotFound, kIo; kCorruptData for what is no regular file.
  virtual Result<Fd> open(const std::string& name) const = 0;
  /// Takes a file that is there out again. Failure: kIo.
  virtual Result<void> remove(const std::string& name) = 0;
  /// Makes everything written so far survive a loss of power. Failure: kIo.
  virtual Result<void> sync() = 0;
  /// For messages.
  virtual std::string path(const std::string& name) const = 0;
};

/// Files by descriptor of their folder: they stay one set even if the folder is renamed meanwhile.
class FolderFiles : public IndexFiles {
 public:
  /// Failures: kNotFound where nothing is there; kIo; kCorruptData for what is no folder.
  static Result<std::unique_ptr<FolderFiles>> open_folder(const std::string& path);

  Result<Fd> create(const std::string& name) override;
  Result<Fd> open(const std::string& name) const override;
  Result<void> remove(const std::string& name) override;
  Result<void> sync() override;
  std::string path(const std::string& name) const override { return path_ + "/" + name; }
  int fd() const noexcept { return folder_.get(); }

 private:
  FolderFiles(Fd folder, std::string path) : folder_(std::move(folder)), path_(std::move(path)) {}

  Fd folder_;
  std::string path_;
};

/// Files that have no name in the file system and are gone with the process.
class MemoryFiles : public IndexFiles {
 public:
  Result<Fd> create(const std::string& name) override;
  Result<Fd> open(const std::string& name) const override;
  Result<void> remove(const std::string& name) override;
  Result<void> sync() override { return {}; }
  std::string path(const std::string& name) const override { return "memory/" + name; }

 private:
  std::map<std::string, Fd> files_;
};

}  // namespace feedrace::formats
