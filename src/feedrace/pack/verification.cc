// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/verification.h"

#include <algorithm>
#include <string_view>

#include "feedrace/error.h"
#include "feedrace/pack/shard_unit.h"

namespace feedrace::pack {

void FindingList::add(const Found& found) {
  auto kind = std::find_if(kinds_.begin(), kinds_.end(), [&](const auto& one) {
    return one.check == found.check && one.what == found.what;
  });
  if (kind == kinds_.end()) {
    kinds_.push_back({found.check, found.is_bad, found.what, 0, {}});
    kind = kinds_.end() - 1;
  }
  kind->count += found.count;
  for (const std::string& example : found.examples) {
    if (kind->examples.size() < kExamplesKept) kind->examples.push_back(example);
  }
}

std::vector<VerifyReport::Finding> FindingList::take() {
  std::stable_partition(kinds_.begin(), kinds_.end(),
                        [](const VerifyReport::Finding& one) { return one.is_bad; });
  return std::move(kinds_);
}

void Gathering::add_bad(const BadSample& sample) {
  list_.add(sample);
  if (sample.code != "flagged") ++bad_count_;
}

void Gathering::add_picture(const BadSample& sample) {
  const bool is_flagged = sample.code == "flagged";
  const char* what = "pictures that can't be decoded";
  if (is_flagged) what = "pictures that are decoded with a complaint";
  if (sample.code == to_string(ErrorCode::kIo)) what = "pictures that can't be read";
  add({"picture", !is_flagged || refuses_flagged_, what, 1, {sample.reason}});
}

void Gathering::take(std::size_t unit, OpenedUnit& opened, std::vector<PieceFindings>& pieces) {
  const std::uint64_t first = next_number_;
  first_numbers_.push_back(first);
  next_number_ += opened.picture_count;
  const auto list = [&](BadSample& sample) {
    if (sample.sample) *sample.sample += first;
    add_bad(sample);
  };
  for (const Found& found : opened.findings.found) {
    // Whether others have a label is known at the end.
    if (std::string_view(found.what) == kMissingLabels) {
      unlabelled_units_.push_back(unit);
    } else {
      add(found);
    }
  }
  for (BadSample& sample : opened.findings.bad) list(sample);
  for (PieceFindings& piece : pieces) {
    for (const Found& found : piece.found) add(found);
    for (BadSample& sample : piece.bad) {
      list(sample);
      add_picture(sample);
    }
  }
  for (std::size_t i = 0; i < opened.key_hashes.size(); ++i) {
    keys_.add(
        {opened.key_hashes[i], static_cast<std::uint32_t>(unit), static_cast<std::uint32_t>(i)});
  }
}

}  // namespace feedrace::pack
