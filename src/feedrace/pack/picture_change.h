// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/decoder.h"
#include "feedrace/error.h"
#include "feedrace/picture_change.h"

namespace feedrace::pack {

struct ChangedPicture {
  std::string bytes;  ///< Those that were given where `is_changed` is false.
  std::string field;  ///< "jpg", "npy", "npy.zst"; the given one where the form stays.
  bool is_changed = false;
};

/// Names of picture fields, and those that changed pictures of them may have, behind each:
/// "left.png" may become "left.jpg" or "left.npy".
std::vector<std::string> changed_fields(const std::vector<std::string>& image_fields);

/// Changes pictures. One instance serves one thread and keeps its memory. The same bytes give the
/// same bytes, on any thread.
///
/// JPEG that is encoded again stays as it is stored: its EXIF, XMP and ICC segments come along, and
/// a turned picture is still turned by its tag. Other formats are turned upright, as their tag is
/// not kept, nor are their profiles. Grey stays grey; alpha goes, 16 bits become 8 and CMYK becomes
/// RGB, as the loader does it.
class PictureChanger {
 public:
  /// Throws Error kInvalidArgument: a side or quality out of range, options that exclude each
  /// other.
  explicit PictureChanger(const PictureChange& change, const decode::DecodeLimits& limits = {});
  ~PictureChanger();
  PictureChanger(PictureChanger&& other) noexcept;
  PictureChanger& operator=(PictureChanger&&) = delete;

  /// `field` is the picture's name behind its key ("jpg", "png"). Failures, which do not name the
  /// sample: kCorruptData for a damaged picture (one that gives pixels with a complaint, too: what
  /// is made of it would look whole), kUnsupported, kIo for no memory.
  Result<ChangedPicture> change(std::string_view encoded, std::string_view field);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace feedrace::pack
