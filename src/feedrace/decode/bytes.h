// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace feedrace::decode {

// Numbers as file formats store them. The caller has checked that the bytes are there.

inline std::uint32_t byte_at(std::span<const std::byte> bytes, std::size_t at) noexcept {
  return std::to_integer<std::uint32_t>(bytes[at]);
}
inline std::uint32_t big16(std::span<const std::byte> bytes, std::size_t at) noexcept {
  return byte_at(bytes, at) << 8 | byte_at(bytes, at + 1);
}
inline std::uint32_t big32(std::span<const std::byte> bytes, std::size_t at) noexcept {
  return big16(bytes, at) << 16 | big16(bytes, at + 2);
}
inline std::uint32_t little16(std::span<const std::byte> bytes, std::size_t at) noexcept {
  return byte_at(bytes, at) | byte_at(bytes, at + 1) << 8;
}
inline std::uint32_t little24(std::span<const std::byte> bytes, std::size_t at) noexcept {
  return little16(bytes, at) | byte_at(bytes, at + 2) << 16;
}
inline std::uint32_t little32(std::span<const std::byte> bytes, std::size_t at) noexcept {
  return little16(bytes, at) | little16(bytes, at + 2) << 16;
}

/// True when `text` lies at `at`; false where the bytes end before.
inline bool holds(std::span<const std::byte> bytes, std::size_t at,
                  std::string_view text) noexcept {
  return at <= bytes.size() && bytes.size() - at >= text.size() &&
         std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

}  // namespace feedrace::decode
