// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feedrace/formats/output_check.h"
#include "feedrace/loader.h"

namespace feedrace::pipeline {

/// All that a loader of these options reads; `set`, which may be null, outlives it.
formats::InputFiles input_files(const LoaderOptions& options, const formats::Dataset* set);

}  // namespace feedrace::pipeline
