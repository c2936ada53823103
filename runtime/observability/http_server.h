#ifndef SHOAL_RUNTIME_OBSERVABILITY_HTTP_SERVER_H_
#define SHOAL_RUNTIME_OBSERVABILITY_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace httplib {
class Server;
}

namespace shoal {

struct HttpRequest {
  std::string path;
  std::string query;   // The text after the '?', as sent.
  std::string accept;  // The header of this name; empty if it is missing.
};

struct HttpResponse {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Answers GET requests on one port with the results of a function: pages for users, probes and
// scrapers, not for heavy load. Other methods are refused with 405. A connection has one request,
// which must arrive within a second, so that idle and slow connections do not block others for
// long: sixteen of them do not delay others at all, and each further sixteen by one second.
class HttpServer {
 public:
  // Called on the server's threads, at most sixteen at a time.
  using Answer = std::function<HttpResponse(const HttpRequest& request)>;

  // `address` is host:port or [v6]:port ; port 0: any free one. FAILED_PRECONDITION: it cannot be
  // listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           Answer answer);
  // Waits for answers under way, and at most a few seconds for incomplete requests.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The address with the real port.
  const std::string& address() const { return address_; }

 private:
  HttpServer();

  std::unique_ptr<httplib::Server> server_;
  std::string address_;
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_HTTP_SERVER_H_
