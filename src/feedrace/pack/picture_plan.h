// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/pack.h"
#include "feedrace/pack/change_estimate.h"
#include "feedrace/pack/pack_source.h"

namespace feedrace::pack {

class ShardLayout;

/// Which member of a sample is its picture: that which a loader takes, the first of `image_fields`.
/// Nothing: it has none.
std::optional<std::size_t> find_picture(const std::vector<SourceMember>& members,
                                        const std::vector<std::string>& image_fields);

/// What is done to the pictures of a set, and about how large they get: a function of sources and
/// options, so that every part and restart comes to the same.
class PicturePlan {
 public:
  /// Above this a picture is not taken into memory.
  static constexpr std::uint64_t kMaxPictureBytes = std::uint64_t{512} << 20;

  /// Reads and changes some of the pictures that `layout` has chosen, where there is something to
  /// do to them. Throws Error kInvalidArgument for changes that can't be.
  PicturePlan(const PackSource& source, const PackOptions& options, const ShardLayout& layout);

  bool changes() const noexcept { return change_.any(); }
  const PictureChange& change() const noexcept { return change_; }
  std::optional<std::size_t> picture(const std::vector<SourceMember>& members) const {
    return find_picture(members, image_fields_);
  }
  /// Failure kInvalidArgument: the changed picture at `picture`, by the name that it gets, would be
  /// one of two members of that name, or loaders would take another one for the picture.
  Result<void> clash(const std::vector<SourceMember>& members, std::size_t picture) const;
  /// Gives the picture the size that it gets, as far as is known.
  void apply(std::vector<SourceMember>& members) const;
  /// What decides about the bytes, as JSON text; "" where nothing is changed.
  std::string options_text() const;
  /// What `apply` goes by: "30,500 bytes", or "310 of 1,000" of what it was.
  std::string planned_text() const;
  /// Of one thread that changes pictures.
  std::uint64_t memory_bytes() const noexcept;
  /// "resized to 256 px on the shorter side; ...", or "".
  std::string text() const;
  const ChangeEstimate& estimate() const noexcept { return estimate_; }
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  void look(const PackSource& source, const ShardLayout& layout);
  void warn_of_failed(const PackSource& source, const ShardLayout& layout);

  const PictureChange change_;
  const std::vector<std::string> image_fields_;
  ChangeEstimate estimate_;
  std::uint64_t largest_bytes_ = 0;  // Of the pictures looked at.
  std::uint64_t picture_bytes_ = 0;  // Each gets about that; 0: `size_ratio_` of its own.
  std::uint64_t size_per_mille_ = 1000;
  std::vector<std::string> warnings_;
};

}  // namespace feedrace::pack
