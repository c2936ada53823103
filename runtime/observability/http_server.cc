#include "runtime/observability/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr size_t kThreads = 2;
constexpr time_t kTimeoutSeconds = 2;

// Two servers on one port would share its connections at random: the second one has to fail.
void SetSocketOptions(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

httplib::Server::HandlerResponse Handle(const HttpServer::Answer& answer,
                                        const httplib::Request& request, httplib::Response* reply) {
  HttpResponse response;
  if (request.method == "GET" || request.method == "HEAD") {
    const size_t question = request.target.find('?');
    response = answer(request.path, question == std::string::npos
                                        ? absl::string_view()
                                        : absl::string_view(request.target).substr(question + 1));
  } else {
    response.code = 405;
    response.body = "only GET\n";
  }
  reply->status = response.code;
  reply->set_header("Cache-Control", "no-store");
  reply->set_content(response.body, response.content_type);
  return httplib::Server::HandlerResponse::Handled;
}

// The host of an address, as getaddrinfo wants it: without the brackets of IPv6.
std::string HostOf(absl::string_view address) {
  absl::string_view host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return std::string(host);
}

}  // namespace

HttpServer::HttpServer() : server_(std::make_unique<httplib::Server>()) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              Answer answer) {
  std::unique_ptr<HttpServer> result(new HttpServer());
  httplib::Server& server = *result->server_;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_socket_options(&SetSocketOptions);
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(kTimeoutSeconds);
  server.set_write_timeout(kTimeoutSeconds);
  server.set_payload_max_length(1 << 10);
  server.set_pre_routing_handler(
      [answer = std::move(answer)](const httplib::Request& request, httplib::Response& reply) {
        return Handle(answer, request, &reply);
      });
  const size_t colon = address.rfind(':');
  int port = 0;
  const bool is_bound = colon != std::string::npos &&
                        absl::SimpleAtoi(address.substr(colon + 1), &port) &&
                        (port != 0 ? server.bind_to_port(HostOf(address), port)
                                   : (port = server.bind_to_any_port(HostOf(address))) > 0);
  if (!is_bound) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen at ", address,
        ": its port is in use by another process, or it is not this machine's; end that process "
        "or name another address (port 0: any free one)"));
  }
  result->address_ = absl::StrCat(address.substr(0, colon), ":", port);
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
