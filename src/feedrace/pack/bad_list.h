// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "feedrace/error.h"
#include "feedrace/formats/bad_sample.h"
#include "feedrace/formats/pending_file.h"

namespace feedrace::pack {

using formats::BadSample;

/// The list of bad samples that `verify` writes, on its way into its place: a `PendingFile`.
class BadListFile {
 public:
  /// An empty `path` writes nothing. Throws Error kIo.
  explicit BadListFile(const std::string& path);

  /// Throws Error kIo (disk full).
  void add(const BadSample& sample);
  /// On the disk, and in place of what was there. Throws Error kIo.
  void publish();

 private:
  void flush();

  std::optional<formats::PendingFile> file_;
  std::string waiting_;
};

}  // namespace feedrace::pack
