// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace feedrace::pack {

/// What payloads begin at a multiple of where they are aligned: a page, and what direct reads of
/// any disk ask for.
inline constexpr std::uint64_t kPayloadAlignmentBytes = 4096;
/// Payloads below this are not aligned: a label would take a page and more.
inline constexpr std::uint64_t kLeastAlignedBytes = 512;

/// The headers of a member whose first byte lies at `offset_bytes`, a multiple of 512; the payload
/// of `size_bytes` follows them.
///
/// ustar where name and size fit it, else a pax header with the rest in front. With `is_aligned`,
/// and from `kLeastAlignedBytes` on, a pax comment, which readers pass over, fills up to the
/// alignment. Owner, mode and time are the same in every member: the bytes depend on the arguments
/// alone. `name` is neither empty nor holds a 0 byte.
std::string tar_member_head(std::uint64_t offset_bytes, std::string_view name,
                            std::uint64_t size_bytes, bool is_aligned);

/// The size of what `tar_member_head` gives, without making it.
std::uint64_t tar_head_bytes(std::uint64_t offset_bytes, std::string_view name,
                             std::uint64_t size_bytes, bool is_aligned);

/// 0 bytes behind a payload, up to the next member.
std::uint64_t tar_padding_bytes(std::uint64_t size_bytes) noexcept;

/// 0 bytes that end an archive whose members end at `offset_bytes`: two blocks, and with
/// `is_aligned` as many more as make its size a multiple of the alignment.
std::uint64_t tar_end_bytes(std::uint64_t offset_bytes, bool is_aligned) noexcept;

}  // namespace feedrace::pack
