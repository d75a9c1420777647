// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/fingerprint.h"

#include <bit>
#include <new>

#include <fmt/format.h>
#include <xxhash.h>

namespace feedrace::formats {

void Fingerprint::Free::operator()(XXH3_state_s* state) const noexcept { XXH3_freeState(state); }

Fingerprint::Fingerprint() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

Fingerprint::~Fingerprint() = default;

void Fingerprint::add_bytes(std::string_view bytes) noexcept {
  // The length in front keeps "ab","c" apart from "a","bc".
  add_number(bytes.size());
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

void Fingerprint::add_number(std::uint64_t value) noexcept {
  static_assert(std::endian::native == std::endian::little,
                "fingerprints are of little-endian bytes");
  XXH3_64bits_update(state_.get(), &value, sizeof(value));
}

std::string Fingerprint::text() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(state_.get()));
}

std::uint64_t hash_of(std::string_view bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hash_text(std::string_view bytes) { return fmt::format("{:016x}", hash_of(bytes)); }

}  // namespace feedrace::formats
