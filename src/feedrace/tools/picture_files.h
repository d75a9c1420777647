// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/format.h"

namespace feedrace::tools {

/// Encoded pictures of a path: a picture, a folder with pictures anywhere in it, or whatever else a
/// loader takes. No more than `limit` of them, at even distances.
class PictureFiles {
 public:
  /// Throws Error: kNotFound, and what opening a data set throws.
  PictureFiles(const std::string& path, std::uint64_t limit);
  ~PictureFiles();

  std::size_t size() const noexcept { return chosen_.size(); }
  std::string name(std::size_t i) const;
  /// Throws Error: kIo, kNotFound.
  std::vector<std::byte> read(std::size_t i) const;

 private:
  std::vector<std::string> files_;             // Empty where there is a data set.
  std::unique_ptr<formats::Dataset> dataset_;  // Null where there are files.
  std::unique_ptr<storage::Backend> backend_;
  std::vector<std::uint64_t> chosen_;
};

}  // namespace feedrace::tools
