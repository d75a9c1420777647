// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "feedrace/host/file_descriptor.h"
#include "feedrace/watch/listening.h"

namespace feedrace::watch {

/// What is answered to "GET /path".
struct Answer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

/// Answers HTTP requests, one a connection, by one thread that ends with it. Clients that are slow,
/// send half of a request or too much, or come in hundreds cost bounded memory and no other client
/// more than a moment: of more than 32 connections the one that has waited longest is dropped.
class Server {
 public:
  /// Called on the server's thread; what it throws is an answer of status 500.
  using Handler = std::function<Answer(std::string_view path)>;

  /// Throws Error kIo when no thread can be had.
  Server(Listening listening, Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& address() const noexcept { return listening_.address; }

 private:
  class Loop;

  const Listening listening_;
  const Handler handler_;
  host::FileDescriptor end_;  // An eventfd.
  std::thread thread_;
};

}  // namespace feedrace::watch
