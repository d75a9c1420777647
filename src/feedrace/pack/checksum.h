// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "feedrace/error.h"
#include "feedrace/formats/tar_reader.h"

namespace feedrace::pack {

/// XXH3 of 128 bits over a whole file, 32 hex digits, as a manifest has it. Failures: kIo, also for
/// a file that becomes shorter meanwhile.
Result<std::string> checksum_of(const formats::ByteSource& source);
/// The same of the file `path`. Failures also: kNotFound.
Result<std::string> checksum_of_file(const std::string& path);

}  // namespace feedrace::pack
