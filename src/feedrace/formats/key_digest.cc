// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/key_digest.h"

#include "feedrace/format.h"

namespace feedrace::formats {

void KeyDigest::add(std::string_view key, LabelState state, std::int64_t label) noexcept {
  const std::string_view canonical = canonical_key(key);
  ordered_.add_bytes(canonical);
  ordered_.add_number(static_cast<std::uint64_t>(state));
  ordered_.add_number(state == LabelState::kOk ? static_cast<std::uint64_t>(label) : 0);
  sum_ += hash_of(canonical);
  ++count_;
}

std::string KeyDigest::as_set() const {
  Fingerprint set;
  set.add_number(sum_);
  set.add_number(count_);
  return set.text();
}

}  // namespace feedrace::formats
