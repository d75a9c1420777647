// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cufile.h>

#include <cstddef>
#include <string>

#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {

/// What an error of cuFile (5001 ...) means for us: the reaction and the text.
Refusal cufile_refusal(const Driver& driver, CUfileError_t error, const std::string& what);

/// Throws unless it is CU_FILE_SUCCESS; `what` says what was done to what.
void check(const Driver& driver, CUfileError_t error, const std::string& what);

/// The refusal for what a read gave: below 0. -1 means that `error_number` says it; below -5000 it
/// is cuFile's error with the sign turned; between, an error number with the sign turned.
Refusal read_refusal(const Driver& driver, std::ptrdiff_t result, int error_number,
                     const std::string& what);

}  // namespace feedrace::cuda_plugin
