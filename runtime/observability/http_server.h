#ifndef SHOAL_RUNTIME_OBSERVABILITY_HTTP_SERVER_H_
#define SHOAL_RUNTIME_OBSERVABILITY_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace httplib {
class Server;
}

namespace shoal {

struct HttpResponse {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Answers GET on one port with what a function says: pages for people, probes and scrapers, not for
// load. Everything else is refused with 405. One request for each connection; it has to be there
// within a second, so that idle and slow connections keep nobody from an answer for long: sixteen
// of them keep nobody waiting at all, and so many more do for one second.
class HttpServer {
 public:
  // On the server's threads, sixteen at a time at most. `query` is what follows the '?', as sent.
  using Answer = std::function<HttpResponse(absl::string_view path, absl::string_view query)>;

  // `address` is host:port or [v6]:port ; port 0: any free one. FAILED_PRECONDITION: it cannot be
  // listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           Answer answer);
  // Waits for answers under way, and at most a few seconds for requests that are not there whole.
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
