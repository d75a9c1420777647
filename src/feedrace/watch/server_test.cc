// SPDX-License-Identifier: Apache-2.0
#include "feedrace/watch/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utime.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

Answer hello(std::string_view path) {
  if (path == "/throws") throw std::runtime_error("no luck");
  if (path == "/big") return {200, "text/plain", std::string(8 << 20, 'x')};
  if (path != "/hello") return {404, "text/plain", "not here"};
  return {200, "text/plain", "hello"};
}

std::unique_ptr<Server> serve() {
  return std::make_unique<Server>(listen_on("127.0.0.1:0"), hello);
}

int port_of(const Server& server) {
  return std::stoi(server.address().substr(server.address().rfind(':') + 1));
}

/// A client that may behave badly.
class Client {
 public:
  explicit Client(const Server& server) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_of(server)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval patience{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void send(const std::string& text) const {
    ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// To the end; what the server has closed has one.
  std::string receive() const {
    std::string all;
    char bytes[65536];
    for (ssize_t n = 0; (n = ::recv(fd_.get(), bytes, sizeof bytes, 0)) > 0;) {
      all.append(bytes, static_cast<std::size_t>(n));
    }
    return all;
  }

 private:
  host::FileDescriptor fd_;
};

std::string ask(const Server& server, const std::string& request) {
  const Client client(server);
  client.send(request);
  return client.receive();
}

TEST(Server, AnswersOneRequestAConnection) {
  const auto server = serve();
  const std::string answer = ask(*server, "GET /hello?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nhello"));
}

TEST(Server, RefusesWhatItDoesNotKnow) {
  const auto server = serve();
  EXPECT_THAT(ask(*server, "GET /x HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask(*server, "POST /hello HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(ask(*server, "nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(*server, "GET /throws HTTP/1.1\r\n\r\n"), HasSubstr("no luck"));
  EXPECT_TRUE(ask(*server, "HEAD /hello HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
}

TEST(Server, SendsAnAnswerThatFillsTheConnection) {
  const auto server = serve();
  EXPECT_THAT(ask(*server, "GET /big HTTP/1.1\r\n\r\n"), SizeIs(::testing::Gt(8U << 20)));
}

TEST(Server, ServesOthersWhileClientsAreSlowOrMany) {
  const auto server = serve();
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(std::make_unique<Client>(*server));
    slow.back()->send("GET /he");
  }
  EXPECT_TRUE(ask(*server, "GET /hello HTTP/1.1\r\n\r\n").ends_with("hello"));
}

TEST(Server, EndsAnEndlessRequest) {
  const auto server = serve();
  const Client client(*server);
  for (int i = 0; i < 64; ++i) client.send(std::string(1024, 'a'));
  client.receive();  // Comes back: the server has closed.
  EXPECT_TRUE(ask(*server, "GET /hello HTTP/1.1\r\n\r\n").ends_with("hello"));
}

TEST(Server, EndsWhileClientsWait) {
  auto server = serve();
  const Client half(*server);
  half.send("GET /hello");
  const Client idle(*server);
  const Client deaf(*server);
  deaf.send("GET /big HTTP/1.1\r\n\r\n");
  server.reset();  // A hang would end the test.
}

TEST(ListenOn, NamesThePortThatItTook) {
  EXPECT_THAT(listen_on("0").address, StartsWith("127.0.0.1:"));
  EXPECT_THAT(listen_on("localhost:0").address, StartsWith("127.0.0.1:"));
  EXPECT_THAT(listen_on(":0").address, StartsWith("0.0.0.0:"));
}

TEST(ListenOn, RefusesWhatIsNoAddress) {
  for (const char* address : {"", "x", "70000", "-1", "1.2.3.4:", "host.example:80", "1:2:3"}) {
    try {
      listen_on(address);
      ADD_FAILURE() << address;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      EXPECT_THAT(error.what(), StartsWith("metrics: "));
    }
  }
}

TEST(ListenOn, SaysThatAPortIsTaken) {
  const Listening first = listen_on("127.0.0.1:0");
  try {
    listen_on(first.address);
    FAIL() << "both listen";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.what(), HasSubstr("take another port"));
  }
}

TEST(LiveSocket, IsThisUsersAloneAndGoesWithItsServer) {
  const testing::TempDir dir;
  const std::string folder = dir / "run";
  {
    const Server server(listen_in(folder), hello);
    struct stat facts{};
    ASSERT_EQ(::stat(folder.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0700U);
    ASSERT_EQ(::stat(server.address().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600U);
    ASSERT_THAT(find_sockets(folder), ElementsAre(server.address()));
    const auto answer = ask_socket(server.address(), "/hello", 5000);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(*answer, "hello");
    EXPECT_FALSE(ask_socket(server.address(), "/absent", 5000));
  }
  EXPECT_THAT(find_sockets(folder), IsEmpty());
}

/// A socket whose process died: its file stays.
std::string leave_stale(const std::string& folder, std::time_t age_seconds) {
  Listening listening = listen_in(folder);
  listening.descriptor = {};
  const std::time_t then = std::time(nullptr) - age_seconds;
  const utimbuf times{then, then};
  ::utime(listening.address.c_str(), &times);
  return listening.address;
}

TEST(LiveSocket, OfADeadProcessIsRemoved) {
  const testing::TempDir dir;
  const std::string folder = dir / "run";
  const std::string stale = leave_stale(folder, 60);
  const std::string young = leave_stale(folder, 0);
  const Server server(listen_in(folder), hello);
  EXPECT_FALSE(std::filesystem::exists(stale));
  EXPECT_TRUE(std::filesystem::exists(young)) << "it may be about to listen";
  EXPECT_FALSE(ask_socket(young, "/hello", 1000));
}

TEST(LiveSocket, NobodyAnswersWithinTheTime) {
  const testing::TempDir dir;
  const Listening silent = listen_in(dir / "run");  // A stopped process.
  const auto answer = ask_socket(silent.address, "/hello", 50);
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("no answer within 50 ms"));
}

TEST(LiveSocket, IsNotOpenedInAFolderOfOthers) {
  const testing::TempDir dir;
  const std::string open = dir / "open";
  std::filesystem::create_directory(open);
  ::chmod(open.c_str(), 0777);
  EXPECT_THROW(listen_in(open), Error);
  EXPECT_THAT(find_sockets(open), IsEmpty());
  std::filesystem::create_directory_symlink(open, dir / "link");
  EXPECT_THROW(listen_in(dir / "link"), Error);
  EXPECT_THROW(listen_in(dir / "absent/run"), Error);
}

TEST(SocketFolder, IsTheUsersOwnAndShortEnough) {
  const testing::TempDir dir;
  std::filesystem::create_directory(dir / "mine");
  ::chmod((dir / "mine").c_str(), 0700);
  EXPECT_EQ(socket_folder((dir / "mine").c_str()), dir / "mine/feedrace");
  const std::string other = "/somewhere/feedrace-" + std::to_string(::geteuid());
  EXPECT_EQ(socket_folder(nullptr, "/somewhere"), other);
  EXPECT_EQ(socket_folder("", "/somewhere"), other);
  EXPECT_EQ(socket_folder((dir / "absent").c_str(), "/somewhere"), other);
  const std::string long_name = dir / std::string(90, 'n');
  std::filesystem::create_directory(long_name);
  ::chmod(long_name.c_str(), 0700);
  EXPECT_EQ(socket_folder(long_name.c_str(), "/somewhere"), other);
  // Who looks for loaders looks at those too that were started without a run-time directory.
  EXPECT_THAT(socket_folders((dir / "mine").c_str(), "/somewhere"),
              ElementsAre(dir / "mine/feedrace", other));
  EXPECT_THAT(socket_folders(nullptr, "/somewhere"), ElementsAre(other));
}

TEST(LiveSocket, IsNotOpenedInAFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  const testing::TempDir dir;
  const std::string folder = dir / "run";
  const std::string stale = leave_stale(folder, 60);
  ASSERT_EQ(::chown(folder.c_str(), 65534, 65534), 0);
  EXPECT_THROW(listen_in(folder), Error);
  EXPECT_THAT(find_sockets(folder), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(stale)) << "what is another's is left alone";
}

}  // namespace
}  // namespace feedrace::watch
