// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/block_trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/watch/counters.h"

namespace feedrace::view {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnPrefix = "feedrace-top-";
constexpr const char* kEvents[] = {"block_rq_issue", "block_rq_complete"};
// A core, in KiB; an event takes about 100 bytes.
constexpr const char* kBufferKib = "1024";
// What is read at a time, so that a flood of events can't hold a caller for ever.
constexpr std::size_t kMostBytesAtOnce = std::size_t{32} << 20;

/// Where tracefs is mounted; empty: nowhere.
std::string tracing_folder(const std::string& root) {
  for (const char* place : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
    std::error_code error;
    if (fs::is_directory(root + place + "/instances", error)) return root + place;
  }
  return {};
}

/// 0, or the error's number.
int write_text(const std::string& path, std::string_view text) {
  const host::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return errno;
  return ::write(file.get(), text.data(), text.size()) < 0 ? errno : 0;
}

/// What processes that were killed have left. That of a living one is busy, and stays.
void remove_left(const std::string& instances) {
  std::vector<std::string> left;
  std::error_code error;
  for (fs::directory_iterator at(instances, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with(kOwnPrefix)) left.push_back(at->path());
  }
  for (const std::string& folder : left) ::rmdir(folder.c_str());
}

/// 0, or the error's number of the first step that fails.
int enable_events(const std::string& folder) {
  // The default buffer serves too where this is not possible.
  static_cast<void>(write_text(folder + "/buffer_size_kb", kBufferKib));
  for (const char* event : kEvents) {
    const std::string events = fmt::format("{}/events/block/{}/", folder, event);
    if (const int error = write_text(events + "filter", "rwbs ~ \"R*\""); error != 0) return error;
    if (const int error = write_text(events + "enable", "1"); error != 0) return error;
  }
  return 0;
}

Failure refusal(const std::string& what, const char* remedy) {
  return {ErrorCode::kUnsupported, fmt::format("{}; {}", what, remedy)};
}

}  // namespace

Result<std::unique_ptr<BlockTrace>> BlockTrace::begin(const std::string& root) {
  const std::string tracing = tracing_folder(root);
  if (tracing.empty()) {
    return refusal("latencies of the block layer: no tracefs that this user may see",
                   "as root: mount -t tracefs nodev /sys/kernel/tracing");
  }
  const std::string instances = tracing + "/instances";
  remove_left(instances);
  const std::string folder = fmt::format("{}/{}{}", instances, kOwnPrefix, ::getpid());
  if (::mkdir(folder.c_str(), 0700) != 0) {
    return refusal("latencies of the block layer: " + errno_text("mkdir " + folder, errno),
                   "run feedrace top as root to see them");
  }
  std::unique_ptr<BlockTrace> made(new BlockTrace(root, folder));
  if (const int error = enable_events(folder); error != 0) {
    return refusal("latencies of the block layer: " + errno_text("enable events", error),
                   "the kernel needs CONFIG_EVENT_TRACING and CONFIG_BLOCK");
  }
  made->pipe_ = host::FileDescriptor(
      ::open((folder + "/trace_pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!made->pipe_) {
    return refusal("latencies of the block layer: " + errno_text("open trace_pipe", errno),
                   "run feedrace top as root to see them");
  }
  return made;
}

BlockTrace::~BlockTrace() {
  for (const char* event : kEvents) {
    static_cast<void>(write_text(fmt::format("{}/events/block/{}/enable", folder_, event), "0"));
  }
  pipe_ = host::FileDescriptor();  // An instance with an open pipe is busy.
  ::rmdir(folder_.c_str());
}

void BlockTrace::collect() {
  char bytes[65536];
  for (std::size_t taken = 0; taken < kMostBytesAtOnce;) {
    const ssize_t count = ::read(pipe_.get(), bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // EAGAIN: that was all.
    taken += static_cast<std::size_t>(count);
    rest_.append(bytes, static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = rest_.find('\n', begin)) != std::string::npos;) {
      events_.add(std::string_view(rest_).substr(begin, end - begin));
      begin = end + 1;
    }
    rest_.erase(0, begin);
  }
}

std::string BlockTrace::device_name(const std::string& number) const {
  std::error_code error;
  const fs::path target = fs::read_symlink(root_ + "/sys/dev/block/" + number, error);
  return error ? number : printable(target.filename().string());
}

nlohmann::ordered_json BlockTrace::take() {
  collect();
  auto devices = nlohmann::ordered_json::object();
  for (const auto& [number, latency] : events_.latencies()) {
    devices[device_name(number)] = watch::to_json(latency);
  }
  nlohmann::ordered_json taken = {{"devices", devices}, {"lost_events", events_.lost()}};
  events_.reset();
  return taken;
}

}  // namespace feedrace::view
