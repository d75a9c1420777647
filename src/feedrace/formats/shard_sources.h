// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace feedrace::formats {

/// Expands {a,b} and {000..499} (zero-padded where a bound is), several and nested, as a shell
/// does. Text without braces, or with braces that hold neither, comes back as it is. Throws Error
/// kInvalidArgument for more than 1,000,000 results.
std::vector<std::string> expand_braces(std::string_view pattern);

/// True when the sources name shards: patterns, files that end as tars do, or folders with .tar
/// files directly in them.
bool look_like_shards(const std::vector<std::string>& sources);

struct ShardSources {
  std::vector<std::string> paths;  ///< Sorted by name within each source; at least one.
  std::vector<std::string> warnings;
};

/// Finds the shards: of a folder all .tar directly in it, of a glob or brace pattern what it names,
/// a file itself. Something that exists is never taken as a pattern. Throws Error kNotFound: a
/// source, or shards of a brace pattern, that do not exist, by name; nothing matches.
ShardSources find_shards(const std::vector<std::string>& sources);

}  // namespace feedrace::formats
