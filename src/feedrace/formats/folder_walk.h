// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/formats/findings.h"

namespace feedrace::formats {

/// `OpenOptions::file_endings`.
using Endings = std::vector<std::string>;
/// True for names that end in one of them, in any case.
bool has_ending_of(std::string_view name, const Endings& endings) noexcept;

/// Many strings in two allocations.
struct NameList {
  std::string bytes;
  std::vector<std::size_t> begins{0};  ///< One more than there are names.

  std::size_t size() const noexcept { return begins.size() - 1; }
  std::string_view operator[](std::size_t i) const noexcept {
    return std::string_view(bytes).substr(begins[i], begins[i + 1] - begins[i]);
  }
  void append(std::string_view folder, std::string_view name);
};

/// What lies directly under the root of an image folder.
struct RootListing {
  /// Folders and links to folders, in code-point order; not the index of shards (NAME.frindex).
  std::vector<std::string> classes;
  std::size_t file_count = 0;  ///< Of any kind.
  Findings findings;
};

/// Throws Error: kNotFound, kIo.
RootListing list_root(const std::string& root, const Endings& endings);

/// Begins the finding of folders that are left out, as their owner lets nobody in.
inline constexpr std::string_view kUnreadableFolders = "folders left out, as they cannot be read";

/// Samples under one class folder: paths under the root, ordered by folder, then name.
struct ClassListing {
  NameList paths;
  Findings findings;
};

/// Never throws for what it finds on disk; what cannot be read or is no regular file is in
/// `findings`.
ClassListing list_class(const std::string& root, const std::string& name, const Endings& endings);

}  // namespace feedrace::formats
