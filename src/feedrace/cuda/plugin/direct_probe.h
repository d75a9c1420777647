// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feedrace/cuda/plugin/direct.h"

namespace feedrace::cuda_plugin {

/// The path that files of this file system take: known, or found by reading a piece of this one.
/// Files of less than a block tell nothing: some file systems keep them inside their records.
DirectPath path_of(DirectSession& session, const feedrace_cuda_file& file, dev_t file_system);

}  // namespace feedrace::cuda_plugin
