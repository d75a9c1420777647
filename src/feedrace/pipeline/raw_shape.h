// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feedrace/loader.h"
#include "feedrace/pipeline/open_sets.h"

namespace feedrace::pipeline {

/// Options whose raw samples have dtype and shape: what is not given is as the first sample of the
/// (first) data set's subset has it, which is read. Others are as they were. Throws Error: it can't
/// be read, or is no such array.
LoaderOptions learn_raw(LoaderOptions options, const OpenedSets& opened);

}  // namespace feedrace::pipeline
