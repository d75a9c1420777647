// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace feedrace {

/// `open` for writing, close-on-exec, with more `flags` such as O_CREAT (then of mode 0666 less the
/// umask), that does not wait for the other end of a pipe: ENXIO where nobody reads it. Returns the
/// descriptor, or -1 with errno set.
int open_output(const std::string& path, int flags);

}  // namespace feedrace
