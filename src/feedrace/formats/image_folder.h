// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "feedrace/format.h"

namespace feedrace::formats {

/// A root with one folder a class, numbered in code-point order; classes without images keep their
/// number and are warned about. Names that begin with a dot are passed over;
/// `OpenOptions::file_endings` count, in any case; links are followed, but no folder is entered
/// again below itself.
class ImageFolderFormat : public Format {
 public:
  std::string_view name() const noexcept override { return "folder"; }
  bool accepts(const std::vector<std::string>& sources) const override;
  std::unique_ptr<Dataset> open(const std::vector<std::string>& sources,
                                const OpenOptions& options) const override;
};

}  // namespace feedrace::formats
