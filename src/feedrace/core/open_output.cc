// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/open_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace feedrace {

int open_output(const std::string& path, int flags) {
  constexpr mode_t kMode = 0666;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | flags, kMode);
  if (fd < 0) return fd;
  // What is written then may wait for its reader again.
  const int status = ::fcntl(fd, F_GETFL);
  if (status >= 0 && ::fcntl(fd, F_SETFL, status & ~O_NONBLOCK) == 0) return fd;
  const int error_number = errno;
  ::close(fd);
  errno = error_number;
  return -1;
}

}  // namespace feedrace
