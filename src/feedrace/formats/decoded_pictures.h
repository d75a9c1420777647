// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

#include "feedrace/format.h"

namespace feedrace::formats {

/// The fields of decoded pictures in shards, and behind a dot what their files end in.
inline constexpr std::array<std::string_view, 3> kDecodedFields = {"npy", "npy.lz4", "npy.zst"};

bool is_decoded_field(std::string_view field) noexcept;

/// True when the samples' pictures are decoded ones by their names, all of them: shards with such a
/// field and none of encoded pictures, or files of such names.
bool holds_decoded(const Dataset& set);

}  // namespace feedrace::formats
