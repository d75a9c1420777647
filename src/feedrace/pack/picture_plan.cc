// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/picture_plan.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/text.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/pack/sample_reader.h"
#include "feedrace/pack/shard_layout.h"

namespace feedrace::pack {
namespace {

constexpr std::uint64_t kLookSeed = 0;
constexpr std::size_t kLookedAt = 64;

/// "seg.png" looks like a picture, "cls" does not.
bool looks_like_picture(std::string_view field, const std::vector<std::string>& image_fields) {
  return std::any_of(image_fields.begin(), image_fields.end(), [&](const std::string& ending) {
    return field == ending || field.ends_with("." + ending);
  });
}

const char* name_of(PictureChange::Resize resize) noexcept {
  return resize == PictureChange::Resize::kLongest ? "longest" : "shortest";
}

}  // namespace

std::optional<std::size_t> find_picture(const std::vector<SourceMember>& members,
                                        const std::vector<std::string>& image_fields) {
  for (const std::string& field : image_fields) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i].field == field) return i;
    }
  }
  return std::nullopt;
}

PicturePlan::PicturePlan(const PackSource& source, const PackOptions& options,
                         const ShardLayout& layout)
    : change_(options.pictures), image_fields_(options.format.image_fields) {
  if (!changes()) return;
  PictureChanger check(change_);  // Throws for changes that can't be.
  look(source, layout);
  if (options.on_error == OnSourceError::kStop) warn_of_failed(source, layout);
  const bool has_one_size = change_.raw || change_.resize != PictureChange::Resize::kNone;
  if (estimate_.size_ratio() == 0) return;
  if (has_one_size) {
    picture_bytes_ = static_cast<std::uint64_t>(std::llround(estimate_.changed_bytes));
  } else {
    size_per_mille_ = static_cast<std::uint64_t>(std::llround(1000 * estimate_.size_ratio()));
  }
}

/// The run would stop at the first of them, maybe hours later.
void PicturePlan::warn_of_failed(const PackSource& source, const ShardLayout& layout) {
  if (estimate_.failed == 0) return;
  warnings_.push_back(fmt::format(
      "{} of {} pictures looked at can't be changed, the first of them {}: list all with feedrace "
      "verify --bad FILE and leave them out with exclude FILE, or with on_error skip",
      estimate_.failed, estimate_.looked_at,
      source.where(layout.sample_at(estimate_.first_failed_picture))));
}

void PicturePlan::look(const PackSource& source, const ShardLayout& layout) {
  std::set<std::string> others;
  std::vector<SourceMember> members;
  const auto read = [&](std::uint64_t position) -> Result<StoredPicture> {
    const std::uint64_t sample = layout.sample_at(position);
    if (const Result<void> found = source.members(sample, members); !found) return found.error();
    const std::optional<std::size_t> at = picture(members);
    if (!at) return Failure{ErrorCode::kNotFound, source.where(sample) + ": has no picture"};
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i != *at && looks_like_picture(members[i].field, image_fields_)) {
        others.insert(members[i].field);
      }
    }
    auto bytes = read_whole_member(members[*at], kMaxPictureBytes);
    if (!bytes) return bytes.error();
    largest_bytes_ = std::max<std::uint64_t>(largest_bytes_, bytes->size());
    return StoredPicture{*std::move(bytes), source.crop_index(sample)};
  };
  estimate_ = estimate_change(change_, layout.sample_count(), read, kLookedAt, kLookSeed);
  if (others.empty() || (change_.resize == PictureChange::Resize::kNone && !change_.raw)) return;
  warnings_.push_back(
      fmt::format("other pictures of a sample ({}) keep their bytes and size; only the one that "
                  "loaders take is "
                  "changed",
                  formats::listed({others.begin(), others.end()})));
}

Result<void> PicturePlan::clash(const std::vector<SourceMember>& members,
                                std::size_t picture) const {
  const std::string& field = members[picture].field;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i == picture || members[i].field != field) continue;
    return Failure{ErrorCode::kInvalidArgument,
                   fmt::format("the changed picture would be called {}, as another member of the "
                               "sample is; rename that one",
                               printable(field))};
  }
  // An array counts as the picture only beside no encoded one.
  const std::optional<std::size_t> taken = this->picture(members);
  if (!taken || *taken == picture) return {};
  return Failure{ErrorCode::kInvalidArgument,
                 fmt::format("beside the changed picture {} loaders would take {} for the picture; "
                             "rename that member, such as mask.{}",
                             printable(field), printable(members[*taken].field),
                             printable(members[*taken].field))};
}

void PicturePlan::apply(std::vector<SourceMember>& members) const {
  if (!changes()) return;
  const std::optional<std::size_t> at = picture(members);
  if (!at) return;
  std::uint64_t& size = members[*at].size_bytes;
  size = picture_bytes_ != 0 ? picture_bytes_ : size * size_per_mille_ / 1000;
}

std::string PicturePlan::options_text() const {
  if (!changes()) return {};
  nlohmann::json json = nlohmann::json::object();
  if (change_.resize != PictureChange::Resize::kNone) {
    json["resize"] = {{"side", name_of(change_.resize)}, {"px", change_.side_px}};
  }
  if (change_.jpeg_quality) json["jpeg_quality"] = *change_.jpeg_quality;
  if (change_.baseline) json["baseline"] = true;
  if (change_.restart_rows != 0) json["restart_rows"] = change_.restart_rows;
  if (change_.raw) json["raw"] = to_string(change_.raw->compression);
  return json.dump();
}

std::string PicturePlan::planned_text() const {
  return picture_bytes_ != 0 ? fmt::format("{} bytes", with_commas(picture_bytes_))
                             : fmt::format("{} of 1,000", with_commas(size_per_mille_));
}

std::uint64_t PicturePlan::memory_bytes() const noexcept {
  if (!changes()) return 0;
  // The changed picture beside what it is made of, and rows of the decoder's.
  constexpr std::uint64_t kRows = std::uint64_t{4} << 20;
  return largest_bytes_ + 2 * static_cast<std::uint64_t>(estimate_.largest_changed_bytes) + kRows;
}

std::string PicturePlan::text() const {
  if (!changes()) return {};
  std::vector<std::string> steps;
  if (change_.resize != PictureChange::Resize::kNone) {
    steps.push_back(fmt::format("resized to {} px on the {} side where they are larger",
                                change_.side_px, name_of(change_.resize)));
  }
  if (change_.jpeg_quality) {
    steps.push_back(fmt::format("encoded as JPEG of quality {}", *change_.jpeg_quality));
  }
  if (change_.baseline) steps.emplace_back("JPEG made baseline, without loss");
  if (change_.restart_rows != 0) {
    steps.push_back(
        fmt::format("a restart marker every {}", formats::counted(change_.restart_rows, "row")));
  }
  if (change_.raw) {
    const RawCompression compression = change_.raw->compression;
    steps.push_back(compression == RawCompression::kNone
                        ? "decoded"
                        : fmt::format("decoded, {}", to_string(compression)));
  }
  return fmt::format("{}; {}", fmt::join(steps, ", "), estimate_.to_text());
}

}  // namespace feedrace::pack
