// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace feedrace {

/// The largest multiple of `alignment`, a power of two, that is not above `bytes`.
constexpr std::uint64_t round_down(std::uint64_t bytes, std::uint64_t alignment) noexcept {
  return bytes & ~(alignment - 1);
}

/// The smallest multiple of `alignment`, a power of two, that is not below `bytes`.
constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t alignment) noexcept {
  return round_down(bytes + alignment - 1, alignment);
}

}  // namespace feedrace
