// SPDX-License-Identifier: Apache-2.0
#include "feedrace/watch/listening.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::watch {
namespace {

namespace fs = std::filesystem;

constexpr int kBacklog = 64;
// Between the birth of a socket's file and its first listening lie microseconds.
constexpr std::time_t kYoungSeconds = 5;
// A name of ours has up to 26 characters.
constexpr std::size_t kNameRoom = 32;
// An answer is a few kilobytes.
constexpr std::size_t kMaxAnswerBytes = std::size_t{4} << 20;

struct HostAndPort {
  std::string host;
  std::string port;
};

HostAndPort split(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  HostAndPort parts;
  if (colon == std::string_view::npos) {
    parts = {"127.0.0.1", std::string(address)};
  } else {
    parts = {std::string(address.substr(0, colon)), std::string(address.substr(colon + 1))};
  }
  std::string& host = parts.host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost") host = "127.0.0.1";
  if (host.empty() || host == "*") host = "0.0.0.0";
  const bool is_port = !parts.port.empty() && parts.port.size() <= 5 &&
                       std::all_of(parts.port.begin(), parts.port.end(),
                                   [](char c) { return c >= '0' && c <= '9'; }) &&
                       std::stoul(parts.port) <= 65535;
  if (!is_port) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("metrics: {} is no [ADDRESS:]PORT, such as 9400 or 0.0.0.0:9400",
                            printable(address)));
  }
  return parts;
}

std::string address_of(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return {};
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  return bound.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port)
                                     : fmt::format("{}:{}", host, port);
}

[[noreturn]] void refuse_address(std::string_view address, const char* call, int error) {
  const bool is_taken = error == EADDRINUSE;
  throw Error(ErrorCode::kIo,
              fmt::format("metrics: {}: {}; {}", printable(address), errno_text(call, error),
                          is_taken ? "take another port, or 0 for any that is free"
                                   : "take an address of this machine and a port above 1023"));
}

/// Failure: no socket, or a path that is too long.
std::optional<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

/// A connection, or the error's number below 0.
int connect_to(const std::string& path, host::FileDescriptor& made) {
  const auto address = unix_address(path);
  if (!address) return -ENAMETOOLONG;
  host::FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return -errno;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return -errno;
  }
  made = std::move(fd);
  return 0;
}

/// Whether nobody will ever listen at `path` again. By asking it: a process number may be another's
/// by now, or of another container.
bool is_stale(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0 || !S_ISSOCK(facts.st_mode)) return false;
  if (facts.st_uid != ::geteuid() || std::time(nullptr) - facts.st_mtime < kYoungSeconds) {
    return false;
  }
  host::FileDescriptor connection;
  return connect_to(path, connection) == -ECONNREFUSED;
}

std::vector<std::string> socket_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".sock") files.push_back(at->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void remove_stale(const std::string& folder) {
  for (const std::string& file : socket_files(folder)) {
    if (is_stale(file)) ::unlink(file.c_str());
  }
}

bool is_private(const std::string& folder) {
  struct stat facts{};
  return ::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == ::geteuid() && (facts.st_mode & 077) == 0;
}

void make_private(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw Error(ErrorCode::kIo, fmt::format("{}: {}; feedrace top will not see this loader",
                                            printable(folder), errno_text("mkdir", errno)));
  }
  if (!is_private(folder)) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("{}: not a folder of this user alone (chmod 700, no link); feedrace top "
                    "will not see this loader",
                    printable(folder)));
  }
}

}  // namespace

Listening listen_on(std::string_view address) {
  const HostAndPort parts = split(address);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* list = nullptr;
  if (::getaddrinfo(parts.host.c_str(), parts.port.c_str(), &wanted, &list) != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("metrics: {} is no address of numbers; give one such as 127.0.0.1:9400 "
                            "or [::1]:9400",
                            printable(address)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(list, &::freeaddrinfo);
  Listening listening;
  listening.descriptor = host::FileDescriptor(
      ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = listening.descriptor.get();
  if (fd < 0) refuse_address(address, "socket", errno);
  // A run that follows another at once finds the port free.
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd, found->ai_addr, found->ai_addrlen) != 0) refuse_address(address, "bind", errno);
  if (::listen(fd, kBacklog) != 0) refuse_address(address, "listen", errno);
  listening.address = address_of(fd);
  return listening;
}

Listening listen_in(const std::string& folder) {
  make_private(folder);
  remove_stale(folder);
  std::random_device random;
  const std::string path = fmt::format("{}/{}-{:08x}.sock", folder, ::getpid(), random());
  const auto address = unix_address(path);
  Listening listening;
  listening.descriptor =
      host::FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = listening.descriptor.get();
  const char* call = "socket";
  bool is_good = fd >= 0 && address.has_value();
  if (is_good) {
    call = "bind";
    is_good = ::bind(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0;
  }
  if (is_good) {
    call = "listen";
    ::chmod(path.c_str(), 0600);  // The folder is closed to others anyway.
    is_good = ::listen(fd, kBacklog) == 0;
  }
  if (!is_good) {
    throw Error(ErrorCode::kIo,
                fmt::format("{}: {}; feedrace top will not see this loader", printable(path),
                            address ? errno_text(call, errno) : "the path is too long"));
  }
  listening.address = path;
  listening.is_file = true;
  return listening;
}

std::string socket_folder(const char* runtime_folder, const std::string& temporary) {
  if (runtime_folder != nullptr && *runtime_folder == '/') {
    const std::string folder = std::string(runtime_folder) + "/feedrace";
    if (is_private(std::string(runtime_folder)) &&
        folder.size() + kNameRoom < sizeof sockaddr_un{}.sun_path) {
      return folder;
    }
  }
  return fmt::format("{}/feedrace-{}", temporary, ::geteuid());
}

std::vector<std::string> socket_folders(const char* runtime_folder, const std::string& temporary) {
  std::vector<std::string> folders = {socket_folder(runtime_folder, temporary)};
  std::string without = socket_folder(nullptr, temporary);
  if (without != folders.front()) folders.push_back(std::move(without));
  return folders;
}

std::vector<std::string> find_sockets(const std::string& folder) {
  if (!is_private(folder)) return {};
  remove_stale(folder);
  return socket_files(folder);
}

Result<std::string> ask_socket(const std::string& path, std::string_view target, int timeout_ms) {
  const auto failed = [&](const std::string& why) {
    return Failure{ErrorCode::kIo, fmt::format("{}: {}; the loader has ended, or is stopped",
                                               printable(path), why)};
  };
  host::FileDescriptor connection;
  if (const int error = connect_to(path, connection); error < 0) {
    return failed(errno_text("connect", -error));
  }
  const std::string request = fmt::format("GET {} HTTP/1.1\r\nHost: loader\r\n\r\n", target);
  const ssize_t sent = ::send(connection.get(), request.data(), request.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(request.size())) return failed(errno_text("send", errno));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  std::string answer;
  while (answer.size() < kMaxAnswerBytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waited{connection.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waited, 1, static_cast<int>(left.count())) <= 0) {
      return failed(fmt::format("no answer within {} ms", timeout_ms));
    }
    char bytes[16384];
    const ssize_t count = ::recv(connection.get(), bytes, sizeof bytes, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return failed(errno_text("recv", errno));
    if (count == 0) break;
    answer.append(bytes, static_cast<std::size_t>(count));
  }
  const std::size_t body = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.1 200 ") || body == std::string::npos) {
    return failed("an answer that is none of a loader");
  }
  return answer.substr(body + 4);
}

}  // namespace feedrace::watch
