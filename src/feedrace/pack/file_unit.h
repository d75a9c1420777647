// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "feedrace/format.h"
#include "feedrace/pack/verify_run.h"
#include "feedrace/verify.h"

namespace feedrace::pack {

/// Samples of a unit of a set whose samples are files of their own.
inline constexpr std::uint64_t kFilesAUnit = 4096;

/// Unit `number` of an image folder or a list, whose files are read while it is checked. `set` must
/// outlive the unit.
OpenedUnit open_file_unit(const formats::Dataset& set, std::size_t number,
                          const VerifyOptions& options, VerifyThread& thread);

/// The sample as messages and the list of bad samples name it.
BadSample describe_file(const formats::Dataset& set, std::uint64_t sample);

}  // namespace feedrace::pack
