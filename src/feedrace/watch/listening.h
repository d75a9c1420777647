// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/host/file_descriptor.h"

namespace feedrace::watch {

/// A socket that listens, without a thread yet.
struct Listening {
  host::FileDescriptor descriptor;
  std::string address;   ///< "127.0.0.1:9400", or the path.
  bool is_file = false;  ///< `address` is a path, to be removed at the end.
};

/// "[ADDRESS:]PORT": "9400" and "localhost:9400" are the loopback's, ":9400" and "*:9400"
/// everybody's,
/// "[::1]:9400" has IPv6; port 0 takes any that is free. Throws Error: kInvalidArgument when it is
/// no such address; kIo when the port is taken or may not be.
Listening listen_on(std::string_view address);

/// In `folder`, made where it is absent, a socket of this process that only this user can reach.
/// Sockets of dead processes there are removed. Throws Error: kIo, kUnsupported.
Listening listen_in(const std::string& folder);

/// Where loaders of this user have their sockets: under `runtime_folder` (XDG_RUNTIME_DIR) where
/// that is this user's and short enough for a socket's path, else a private folder in `temporary`.
std::string socket_folder(const char* runtime_folder, const std::string& temporary = "/tmp");

/// Where loaders of this user may have them: that folder, and the one in `temporary`, which a
/// program has that was started without a run-time directory.
std::vector<std::string> socket_folders(const char* runtime_folder,
                                        const std::string& temporary = "/tmp");

/// The sockets in `folder` that somebody listens on, sorted; stale ones are removed. Nothing where
/// there is no such folder.
std::vector<std::string> find_sockets(const std::string& folder);

/// What the one who listens at `path` answers to "GET `target`" within `timeout_ms`. Failure: kIo.
Result<std::string> ask_socket(const std::string& path, std::string_view target, int timeout_ms);

}  // namespace feedrace::watch
