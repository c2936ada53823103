#include "runtime/observability/http_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/notification.h"
#include "base/unique_fd.h"

namespace shoal {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

HttpResponse Echo(const HttpRequest& request) {
  HttpResponse response;
  response.code = request.path == "/no" ? 404 : 200;
  response.body = absl::StrCat(request.path, "|", request.query, "|", request.accept);
  return response;
}

// A connection to the server; invalid if there is none.
UniqueFd Connect(const HttpServer& server) {
  const std::string& address = server.address();
  UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + address.rfind(':') + 1)));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) return UniqueFd();
  return fd;
}

// Returns everything that the server sends for a request on a new connection.
std::string Send(const HttpServer& server, const std::string& request) {
  const UniqueFd fd = Connect(server);
  if (!fd.is_valid()) return "no connection";
  if (write(fd.get(), request.data(), request.size()) != static_cast<ssize_t>(request.size())) {
    return "not written";
  }
  std::string answer;
  char part[4096];
  for (ssize_t count; (count = read(fd.get(), part, sizeof(part))) > 0;) {
    answer.append(part, static_cast<size_t>(count));
  }
  return answer;
}

TEST(HttpServerTest, AnswersGetWithPathAndQuery) {
  auto server = HttpServer::Start("127.0.0.1:0", &Echo);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->address(), StartsWith("127.0.0.1:"));
  EXPECT_FALSE(absl::EndsWith((*server)->address(), ":0"));
  const std::string answer =
      Send(**server, "GET /statusz?format=json HTTP/1.1\r\nHost: here\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 21\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n/statusz|format=json|"));
}

TEST(HttpServerTest, TheAnswerKnowsWhatTheClientAccepts) {
  auto server = HttpServer::Start("127.0.0.1:0", &Echo);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT(Send(**server, "GET / HTTP/1.1\r\nAccept: text/html,*/*;q=0.8\r\n\r\n"),
              EndsWith("\r\n\r\n/||text/html,*/*;q=0.8"));
}

TEST(HttpServerTest, SendsTheCodeOfTheAnswer) {
  auto server = HttpServer::Start("localhost:0", &Echo);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT(Send(**server, "GET /no HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 404 Not Found"));
}

TEST(HttpServerTest, HeadHasNoBodyAndOthersAreRefused) {
  auto server = HttpServer::Start("127.0.0.1:0", &Echo);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT(Send(**server, "HEAD /a HTTP/1.0\r\n\r\n"), EndsWith("\r\n\r\n"));
  EXPECT_THAT(Send(**server, "POST /a HTTP/1.0\r\nContent-Length: 0\r\n\r\n"),
              StartsWith("HTTP/1.1 405 Method Not Allowed"));
  EXPECT_THAT(Send(**server, "nonsense\r\n\r\n"), HasSubstr(" 400 Bad Request"));
}

// Connections on which a byte of an endless request is sent every tenth of a second.
class Drips {
 public:
  Drips(const HttpServer& server, size_t count) {
    for (size_t i = 0; i < count; ++i) fds_.push_back(Connect(server));
    for (const UniqueFd& fd : fds_) send(fd.get(), "GET /", 5, MSG_NOSIGNAL);
    thread_ = std::thread([this] {
      while (!end_.WaitFor(absl::Milliseconds(100))) {
        for (const UniqueFd& fd : fds_) send(fd.get(), "a", 1, MSG_NOSIGNAL);
      }
    });
  }
  ~Drips() {
    end_.Notify();
    thread_.join();
  }

 private:
  std::vector<UniqueFd> fds_;
  Notification end_;
  std::thread thread_;
};

TEST(HttpServerTest, IdleAndSlowConnectionsDoNotBlockOthers) {
  auto server = HttpServer::Start("127.0.0.1:0", &Echo);
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(Connect(**server));
  const Drips drips(**server, 20);
  for (int i = 0; i < 3; ++i) {
    const absl::Time start = absl::Now();
    EXPECT_THAT(Send(**server, "GET /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 OK"));
    EXPECT_LT(absl::Now() - start, absl::Seconds(8));
  }
}

TEST(HttpServerTest, ARequestHasASecondHoweverItsBytesCome) {
  auto server = HttpServer::Start("127.0.0.1:0", &Echo);
  ASSERT_TRUE(server.ok()) << server.status();
  const UniqueFd fd = Connect(**server);
  char byte;
  const absl::Time start = absl::Now();
  EXPECT_LE(read(fd.get(), &byte, 1), 0) << "nothing was asked for";
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  const std::string endless = absl::StrCat("GET /a HTTP/1.1\r\nA: ", std::string(100 << 10, 'a'));
  const std::string answer = Send(**server, endless);
  EXPECT_THAT(answer, testing::Not(HasSubstr("200 OK")));
}

TEST(HttpServerTest, ALongAnswerArrivesWhole) {
  auto server = HttpServer::Start("127.0.0.1:0", [](const HttpRequest& /*request*/) {
    HttpResponse response;
    response.body = std::string(4 << 20, 'a') + "z";
    return response;
  });
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT(Send(**server, "GET /a HTTP/1.1\r\n\r\n"), EndsWith("aaz"));
}

TEST(HttpServerTest, APortInUseIsNamed) {
  auto first = HttpServer::Start("127.0.0.1:0", &Echo);
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = HttpServer::Start((*first)->address(), &Echo);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr((*first)->address()));
}

}  // namespace
}  // namespace shoal
