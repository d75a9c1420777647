// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/sample_spans.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/core/text.h"

namespace feedrace::formats {
namespace {

// Samples whose spans are measured to size read buffers.
constexpr std::uint64_t kMeasured = 256;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void check_fields(const Dataset& dataset, const std::vector<WantedField>& wanted) {
  const std::vector<std::string> stored = dataset.stored_fields();
  for (const WantedField& field : wanted) {
    if (std::find(stored.begin(), stored.end(), field.name) != stored.end()) continue;
    if (stored.empty()) {
      refuse(
          fmt::format("field {:?}: a data set of the kind \"{}\" has images and labels only; "
                      "leave it out, or pack the files beside the images into tar shards",
                      field.name, dataset.kind()));
    }
    refuse(fmt::format("field {:?}: no sample has it; the shards hold {}", field.name,
                       fmt::join(stored, ", ")));
  }
}

}  // namespace

SampleSpans::SampleSpans(std::shared_ptr<const Dataset> dataset, std::vector<WantedField> fields)
    : dataset_(std::move(dataset)), wanted_(std::move(fields)) {
  check_fields(*dataset_, wanted_);
  const std::uint64_t step = std::max<std::uint64_t>(1, dataset_->size() / kMeasured);
  double bytes = 0;
  double count = 0;
  for (std::uint64_t i = 0; i < dataset_->size(); i += step) {
    bytes += static_cast<double>(SampleSpans::place(i).size_bytes);
    ++count;
  }
  mean_bytes_ = count > 0 ? bytes / count : 0;
}

Place SampleSpans::place(std::uint64_t sample) const noexcept {
  const Place image = dataset_->place(sample);
  if (image.size_bytes == 0) return image;  // A damaged index: reading it fails and names it.
  std::uint64_t begin = image.offset_bytes;
  std::uint64_t end = begin + image.size_bytes;
  for (const WantedField& field : wanted_) {
    const auto place = dataset_->field_place(sample, field.name);
    if (!place) continue;
    begin = std::min(begin, place->offset_bytes);
    end = std::max(end, place->offset_bytes + place->size_bytes);
  }
  return {image.shard, begin, end - begin};
}

Result<SampleSpans::Pieces> SampleSpans::pieces(std::uint64_t sample) const {
  const Place image = dataset_->place(sample);
  const std::uint64_t begin = SampleSpans::place(sample).offset_bytes;
  Pieces pieces{{image.offset_bytes - begin, image.size_bytes}, {}};
  for (const WantedField& field : wanted_) {
    const auto place = dataset_->field_place(sample, field.name);
    if (!place && !field.is_optional) {
      return Failure{ErrorCode::kCorruptData,
                     fmt::format("it has no field {0}; name it \"{0}?\" if samples may lack it",
                                 printable(field.name))};
    }
    pieces.fields.push_back(
        place ? std::optional(Piece{place->offset_bytes - begin, place->size_bytes})
              : std::nullopt);
  }
  return pieces;
}

std::vector<WantedField> parse_fields(const std::vector<std::string>& names) {
  std::vector<WantedField> fields;
  for (const std::string& name : names) {
    const bool is_optional = name.ends_with('?');
    std::string bare = is_optional ? name.substr(0, name.size() - 1) : name;
    if (bare.empty()) refuse("a field without a name; name one such as json or txt");
    const auto same = [&](const WantedField& other) { return other.name == bare; };
    if (std::any_of(fields.begin(), fields.end(), same)) {
      refuse(fmt::format("field {:?} is named twice; name it once", bare));
    }
    fields.push_back({std::move(bare), is_optional});
  }
  return fields;
}

}  // namespace feedrace::formats
