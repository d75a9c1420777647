// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/order/state.h"
#include "feedrace/tools/command.h"

namespace feedrace::tools {
namespace {

class OpenFile {
 public:
  OpenFile(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~OpenFile() { close(); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int fd() const noexcept { return fd_; }
  bool is_open() const noexcept { return fd_ >= 0; }
  bool close() noexcept {
    const bool is_good = fd_ < 0 || ::close(fd_) == 0;
    fd_ = -1;
    return is_good;
  }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::string& path, const char* what, const char* call, int error,
                       const char* remedy) {
  throw Error(ErrorCode::kIo, fmt::format("{}: the state can't be {} ({}); {}", printable(path),
                                          what, errno_text(call, error), remedy));
}

/// The call that failed, with errno set; null when all went well.
const char* write_all(const std::string& path, std::string_view text) {
  OpenFile file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.is_open()) return "open";
  while (!text.empty()) {
    const ssize_t written = ::write(file.fd(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return "write";
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  // Before the rename: else a machine that stops may leave the new name with no content.
  if (fsync(file.fd()) != 0) return "fsync";
  return file.close() ? nullptr : "close";
}

/// Makes the rename last. Where a folder can't be synced, nothing better can be had.
void sync_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const OpenFile folder(slash == std::string::npos ? "." : path.substr(0, slash + 1),
                        O_RDONLY | O_DIRECTORY);
  if (folder.is_open()) fsync(folder.fd());
}

}  // namespace

void StateFile::add_to(CLI::App& command, const std::string& help) {
  command.add_option("--state", path, help)->check(not_empty());
  command.add_flag("--accept-changed-data", accept_changed_data,
                   "Go on from a state though samples have other content, if their number is the "
                   "same");
}

std::optional<std::string> StateFile::read() const {
  // Non-blocking: a pipe that nobody writes must not hold up the start.
  const OpenFile file(path, O_RDONLY | O_NONBLOCK);
  if (!file.is_open()) {
    if (errno == ENOENT) return std::nullopt;
    fail(path, "read", "open", errno, "look at the path and its permissions");
  }
  std::string text;
  std::array<char, 1 << 16> buffer;
  // What is too long to be a state is left to whoever parses it to refuse.
  while (text.size() <= order::kMostStateBytes) {
    const ssize_t got = ::read(file.fd(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "read", "read", errno, "give the file that a loader's state is in");
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

bool StateFile::load_into(Loader& loader) const {
  const std::optional<std::string> text = read();
  if (!text) return false;
  try {
    warn(loader.load_state(*text, accept_changed_data));
  } catch (const Error& error) {
    throw Error(error.code(), printable(path) + ": " + error.what());
  }
  return true;
}

void StateFile::write(const std::string& text) const {
  // Of this process: ranks that name the same file must not write into each other's.
  const std::string part = fmt::format("{}.{}.tmp", path, getpid());
  const char* failed_call = write_all(part, text);
  if (failed_call == nullptr && std::rename(part.c_str(), path.c_str()) != 0) {
    failed_call = "rename";
  }
  if (failed_call == nullptr) return sync_folder_of(path);
  const int error = errno;
  unlink(part.c_str());
  fail(path, "written", failed_call, error,
       "look at the folder, its permissions and space, or name another file");
}

}  // namespace feedrace::tools
