// SPDX-License-Identifier: Apache-2.0
#include "feedrace/watch/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"

namespace feedrace::watch {
namespace {

using Clock = std::chrono::steady_clock;

// A scraper and a few persons are two or three.
constexpr std::size_t kMaxConnections = 32;
// A request of Prometheus has 300 bytes.
constexpr std::size_t kMaxRequestBytes = 8192;
// From the connection to the last byte of the answer.
constexpr std::chrono::seconds kPatience{5};

struct Connection {
  host::FileDescriptor descriptor;
  Clock::time_point deadline;
  std::string request;
  std::string answer;  // Empty until the request is whole.
  std::size_t sent_bytes = 0;
};

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Internal Server Error";
  }
}

std::string text_of(const Answer& answer, bool has_body) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      answer.status, reason_of(answer.status), answer.type, answer.body.size(),
      has_body ? answer.body : std::string());
}

Answer refusal(int status) { return {status, "text/plain; charset=utf-8", reason_of(status)}; }

}  // namespace

class Server::Loop {
 public:
  explicit Loop(const Server& server) : server_(server) {}

  void run() {
    while (true) {
      std::vector<pollfd> waited = {{server_.end_.get(), POLLIN, 0},
                                    {server_.listening_.descriptor.get(), POLLIN, 0}};
      for (const Connection& each : connections_) {
        const short events = each.answer.empty() ? POLLIN : POLLOUT;
        waited.push_back({each.descriptor.get(), events, 0});
      }
      if (::poll(waited.data(), waited.size(), wait_ms()) < 0 && errno != EINTR) return;
      if (waited[0].revents != 0) return;
      serve(waited);
      if (waited[1].revents != 0) accept_one();
    }
  }

 private:
  /// Until the first connection loses patience; for ever while there is none.
  int wait_ms() const {
    if (connections_.empty()) return -1;
    const auto left = connections_.front().deadline - Clock::now();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
    return static_cast<int>(std::max<std::int64_t>(0, ms) + 1);
  }

  /// Connections that are done, broken or too old go.
  void serve(const std::vector<pollfd>& waited) {
    constexpr std::size_t kFixed = 2;
    std::deque<Connection> rest;
    const auto now = Clock::now();
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      Connection& each = connections_[i];
      const bool has_come = waited[kFixed + i].revents != 0;
      const bool goes_on = now < each.deadline && (!has_come || step(each));
      if (goes_on) rest.push_back(std::move(each));
    }
    connections_.swap(rest);
  }

  void accept_one() {
    const int fd = ::accept4(server_.listening_.descriptor.get(), nullptr, nullptr,
                             SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // Without a descriptor to spare the same would be reported at once, and again.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) pause();
      return;
    }
    if (connections_.size() >= kMaxConnections) connections_.pop_front();
    Connection made;
    made.descriptor = host::FileDescriptor(fd);
    made.deadline = Clock::now() + kPatience;
    connections_.push_back(std::move(made));
  }

  void pause() const {
    pollfd end{server_.end_.get(), POLLIN, 0};
    ::poll(&end, 1, 100);
  }

  /// False: the connection is over.
  bool step(Connection& connection) const {
    if (connection.answer.empty()) return receive(connection);
    return send(connection);
  }

  bool receive(Connection& connection) const {
    char bytes[2048];
    const ssize_t count = ::recv(connection.descriptor.get(), bytes, sizeof bytes, 0);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    connection.request.append(bytes, static_cast<std::size_t>(count));
    const bool is_whole = connection.request.find("\r\n\r\n") != std::string::npos ||
                          connection.request.find("\n\n") != std::string::npos;
    if (!is_whole && connection.request.size() < kMaxRequestBytes) return true;
    connection.answer = is_whole ? answer_to(connection.request) : text_of(refusal(400), true);
    return send(connection);
  }

  bool send(Connection& connection) const {
    const std::string_view rest = std::string_view(connection.answer).substr(connection.sent_bytes);
    const ssize_t count =
        ::send(connection.descriptor.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    connection.sent_bytes += static_cast<std::size_t>(count);
    if (connection.sent_bytes < connection.answer.size()) return true;
    ::shutdown(connection.descriptor.get(), SHUT_WR);
    return false;
  }

  std::string answer_to(std::string_view request) const {
    const std::string_view line = request.substr(0, request.find_first_of("\r\n"));
    const std::size_t first = line.find(' ');
    const std::size_t second = line.find(' ', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) {
      return text_of(refusal(400), true);
    }
    const std::string_view method = line.substr(0, first);
    const bool has_body = method != "HEAD";
    if (method != "GET" && has_body) return text_of(refusal(405), true);
    std::string_view path = line.substr(first + 1, second - first - 1);
    path = path.substr(0, path.find('?'));
    try {
      return text_of(server_.handler_(path), has_body);
    } catch (const std::exception& error) {
      return text_of({500, "text/plain; charset=utf-8", printable(error.what())}, has_body);
    }
  }

  const Server& server_;
  std::deque<Connection> connections_;  // In the order in which they came.
};

Server::Server(Listening listening, Handler handler)
    : listening_(std::move(listening)),
      handler_(std::move(handler)),
      end_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (end_.get() < 0) throw Error(ErrorCode::kIo, errno_text("eventfd", errno));
  try {
    thread_ = std::thread([this] {
      try {
        Loop(*this).run();
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
        // No memory: who asks gets no answer; the loader goes on.
      }
    });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kIo,
                fmt::format("no thread can be started to serve {} ({}); raise the limit on "
                            "processes (ulimit -u)",
                            printable(listening_.address), error.what()));
  }
}

Server::~Server() {
  if (listening_.is_file) ::unlink(listening_.address.c_str());
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(end_.get(), &one, sizeof one);  // Has room.
  thread_.join();
}

}  // namespace feedrace::watch
