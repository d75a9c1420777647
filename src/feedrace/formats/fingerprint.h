// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace feedrace::formats {

/// Hashes the samples of a set in order. Equal for sets with the same keys, sizes and labels in the
/// same order, wherever they lie.
class Fingerprint {
 public:
  Fingerprint();
  ~Fingerprint();
  Fingerprint(const Fingerprint&) = delete;
  Fingerprint& operator=(const Fingerprint&) = delete;

  void add_bytes(std::string_view bytes) noexcept;
  void add_number(std::uint64_t value) noexcept;
  /// 16 hex digits over what was added so far.
  std::string text() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

/// XXH3 of `bytes` as 16 hex digits.
std::string hash_text(std::string_view bytes);
std::uint64_t hash_of(std::string_view bytes) noexcept;

}  // namespace feedrace::formats
