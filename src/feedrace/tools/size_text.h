// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <CLI/CLI.hpp>

#include "feedrace/error.h"

namespace feedrace::tools {

/// What "GB" means; "GiB" is 1024^3 in any case.
enum class SizePrefix : std::uint8_t {
  kDecimal,  ///< 1000^3, as storage is sold.
  kBinary,   ///< 1024^3, as fio has it.
};

/// Bytes of "4096", "1.5GB", "64 MiB", "4k", in any case of letters. Failure: kInvalidArgument for
/// a sign, another unit, or 2^63 and more.
Result<std::uint64_t> parse_size(std::string_view text, SizePrefix prefix = SizePrefix::kDecimal);

/// Of an option: makes a number of bytes of the text.
CLI::Validator size_value(SizePrefix prefix = SizePrefix::kDecimal);

}  // namespace feedrace::tools
