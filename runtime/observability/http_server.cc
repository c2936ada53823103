#include "runtime/observability/http_server.h"

#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "runtime/cluster/address.h"

namespace shoal {
namespace {

// The number of threads, and so of connections that can be idle or slow before others have to wait.
constexpr size_t kThreads = 16;
// The time limit for receiving a whole request, and again for sending a whole answer.
constexpr absl::Duration kRequestTime = absl::Seconds(1);
constexpr absl::Duration kAnswerTime = absl::Seconds(2);
constexpr size_t kMaxRequestBytes = 16 << 10;

// Reads and writes one connection with a deadline for all bytes together. The library has a time
// limit only for each read, which a peer that sends single bytes never exceeds.
class TimedStream : public httplib::Stream {
 public:
  explicit TimedStream(socket_t socket)
      : socket_(socket), request_end_(absl::Now() + kRequestTime) {}

  bool is_readable() const override { return Await(POLLIN, request_end_); }
  bool is_writable() const override { return Await(POLLOUT, absl::Now() + kAnswerTime); }

  // The library asks for one byte at a time.
  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_) {
      if (received_ >= kMaxRequestBytes || !is_readable()) return -1;
      const ssize_t count = recv(socket_, buffer_, sizeof(buffer_), MSG_DONTWAIT);
      if (count <= 0) return count;
      received_ += static_cast<size_t>(count);
      begin_ = 0;
      end_ = static_cast<size_t>(count);
    }
    const size_t count = std::min(size, end_ - begin_);
    std::copy_n(buffer_ + begin_, count, to);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* from, size_t size) override {
    if (answer_end_ == absl::InfiniteFuture()) answer_end_ = absl::Now() + kAnswerTime;
    while (Await(POLLOUT, answer_end_)) {
      const ssize_t count = send(socket_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count >= 0 || (errno != EAGAIN && errno != EINTR)) return count;
    }
    return -1;
  }

  // Not asked for: who the peer is makes no difference.
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return socket_; }

 private:
  bool Await(decltype(pollfd::events) events, absl::Time end) const {
    pollfd entry = {socket_, events, 0};
    while (true) {
      const int64_t left = absl::ToInt64Milliseconds(absl::Ceil(end - absl::Now(), kTick));
      const int ready = poll(&entry, 1, static_cast<int>(std::max<int64_t>(left, 0)));
      if (ready >= 0 || errno != EINTR) return ready > 0;
    }
  }

  static constexpr absl::Duration kTick = absl::Milliseconds(1);

  const socket_t socket_;
  const absl::Time request_end_;
  // The time limit starts with the first byte of the answer.
  absl::Time answer_end_ = absl::InfiniteFuture();
  size_t received_ = 0;
  char buffer_[4096];
  size_t begin_ = 0, end_ = 0;  // The part of buffer_ that was not read yet.
};

// Serves one request per connection, in limited time.
class TimedServer : public httplib::Server {
 private:
  bool process_and_close_socket(socket_t socket) override {
    bool is_done = false;
    {
      TimedStream stream(socket);
      bool is_closed = false;
      is_done = process_request(stream, /*close_connection=*/true, is_closed, nullptr);
    }
    shutdown(socket, SHUT_RDWR);
    close(socket);
    return is_done;
  }
};

// Makes a second server on the same port fail, because two servers would share its connections at
// random.
void SetSocketOptions(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

httplib::Server::HandlerResponse Handle(const HttpServer::Answer& answer,
                                        const httplib::Request& request, httplib::Response* reply) {
  HttpResponse response;
  if (request.method == "GET" || request.method == "HEAD") {
    const size_t question = request.target.find('?');
    response = answer({request.path,
                       question == std::string::npos ? "" : request.target.substr(question + 1),
                       request.get_header_value("Accept")});
  } else {
    response.code = 405;
    response.body = "only GET\n";
  }
  reply->status = response.code;
  reply->set_header("Cache-Control", "no-store");
  reply->set_header("Vary", "Accept");
  reply->set_header("X-Content-Type-Options", "nosniff");
  reply->set_content(response.body, response.content_type);
  return httplib::Server::HandlerResponse::Handled;
}

}  // namespace

HttpServer::HttpServer() : server_(std::make_unique<TimedServer>()) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              Answer answer) {
  std::unique_ptr<HttpServer> result(new HttpServer());
  httplib::Server& server = *result->server_;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_socket_options(&SetSocketOptions);
  server.set_payload_max_length(1 << 10);
  server.set_pre_routing_handler(
      [answer = std::move(answer)](const httplib::Request& request, httplib::Response& reply) {
        return Handle(answer, request, &reply);
      });
  int port = 0;
  const bool is_bound = absl::SimpleAtoi(GetPort(address), &port) &&
                        (port != 0 ? server.bind_to_port(GetHost(address), port)
                                   : (port = server.bind_to_any_port(GetHost(address))) > 0);
  if (!is_bound) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen at ", address,
        ": the port is in use, or the address does not belong to this machine; end the process "
        "that uses it, or name another address (port 0: any free one)"));
  }
  result->address_ = WithPort(address, port);
  result->thread_ = std::thread([&server] { server.listen_after_bind(); });
  while (!server.is_running()) std::this_thread::yield();
  return result;
}

HttpServer::~HttpServer() {
  if (!thread_.joinable()) return;
  server_->stop();
  thread_.join();
}

}  // namespace shoal
