// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace feedrace::formats {

/// "1 shard", "1,281 shards". For nouns whose plural ends in s.
std::string counted(std::uint64_t count, std::string_view noun);

/// Names that a message lists; the others are "...".
inline constexpr std::size_t kNamesListed = 12;

/// "a, b, c", fit to print; ", ..." at its end when there are more than `most`.
std::string listed(const std::vector<std::string>& names, std::size_t most = kNamesListed);

}  // namespace feedrace::formats
