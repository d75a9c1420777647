// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace feedrace {

/// Names come from disks and archives and may hold anything; a message is one line. Control bytes
/// and bytes that are not UTF-8 become \xNN, the backslash \\. Behind 4,096 bytes, more than any
/// path has, comes "... (N bytes)".
std::string printable(std::string_view raw);

/// `raw` as a word of a command that a message suggests, so that it can be pasted into a shell.
std::string shell_word(std::string_view raw);

/// True when `raw` is well-formed UTF-8 (RFC 3629).
bool is_utf8(std::string_view raw) noexcept;

/// Two lower-case hex digits a byte: how JSON carries names that are not UTF-8.
std::string hex_of(std::string_view bytes);

/// "123.4 MB": decimal units, as storage is sold.
std::string human_bytes(std::uint64_t bytes);

/// "1,281,167".
std::string with_commas(std::uint64_t value);

/// "open: Permission denied": the call and the text of `error_number`.
std::string errno_text(std::string_view call, int error_number);

}  // namespace feedrace
