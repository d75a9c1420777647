// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/pending_file.h"
#include "feedrace/formats/posix_file.h"
#include "feedrace/order/state.h"
#include "feedrace/tools/command.h"

namespace feedrace::tools {
namespace {

[[noreturn]] void fail_to_read(const std::string& path, const char* call, const char* remedy) {
  throw Error(ErrorCode::kIo, fmt::format("{}: the state can't be read ({}); {}", printable(path),
                                          errno_text(call, errno), remedy));
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
  const formats::Fd file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return std::nullopt;
    fail_to_read(path, "open", "look at the path and its permissions");
  }
  std::string text;
  std::array<char, 1 << 16> buffer;
  // What is too long to be a state is left to whoever parses it to refuse.
  while (text.size() <= order::kMostStateBytes) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to_read(path, "read", "give the file that a loader's state is in");
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
  const Result<void> put = formats::put_file(path, text);
  if (!put) throw Error(put.error().code, "state: " + put.error().message);
}

}  // namespace feedrace::tools
