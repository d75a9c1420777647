// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "feedrace/format.h"
#include "feedrace/formats/crop_columns.h"

namespace feedrace::formats {

/// Crop indexes of an image folder: `NAME.crops.frindex` beside the folder, or in the user's cache
/// folder when that can't be written to.
///
/// They are those of the folder as long as its list of files is the same, by the fingerprint.
/// Whether a file is still the one that was indexed only the hash in its crop index says, where it
/// is used: opening a folder asks for no file's size or time, which takes minutes on a network file
/// system. Making crop indexes asks for them, and makes those of files anew that changed or could
/// not be read before.
struct FolderCrops {
  CropColumns columns;
  std::uint64_t count = 0;  ///< Of pictures that have one.
  CropIndexGaps gaps;       ///< Why the others have none.
  std::string path;         ///< Where they lie; empty: there are none.
  std::vector<std::string> warnings;
};

/// Those that are stored; with `options.make_crop_index` they are made where none fit. Throws
/// Error: kIo where they can't be stored.
FolderCrops open_folder_crops(const Dataset& folder, const std::string& root,
                              const OpenOptions& options);

}  // namespace feedrace::formats
