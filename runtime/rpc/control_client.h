// The callers' side of the control calls. proto/v1/chief_service.proto and parameter_service.proto
// declare the calls, and gRPC generates a class of each service from them. A caller names the
// method of that class:
//
//     chief->Call(&v1::ChiefService::Service::Heartbeat, request, &response)
//
// so that no class of ours repeats the list. A ControlChannel carries the calls: over gRPC
// (grpc_control_channel.h), inside this process (in_process_control_channel.h), or through the
// network of a simulation.
#ifndef SHOAL_RUNTIME_RPC_CONTROL_CLIENT_H_
#define SHOAL_RUNTIME_RPC_CONTROL_CLIENT_H_

#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"

#include "runtime/rpc/control_timeout.h"

namespace grpc {
class ServerContext;
class Service;
}  // namespace grpc

namespace shoal {

// One call of a control service. Its pointers are valid until the call has ended.
struct ControlCall {
  std::string path;  // "/shoal.v1.ChiefService/Heartbeat"
  absl::Duration timeout;
  const google::protobuf::Message* request = nullptr;
  google::protobuf::Message* response = nullptr;
  // Calls the method of a service in this process, which sees no context of a connection.
  std::function<grpc::Status(grpc::Service* service, const google::protobuf::Message& request,
                             google::protobuf::Message* response)>
      serve;

  // Returns "Heartbeat".
  std::string method() const { return path.substr(path.rfind('/') + 1); }
};

// Carries the control calls to one task. Thread-safe.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;
  // Blocks until the call is answered or its timeout has passed.
  virtual absl::Status Make(const ControlCall& call) = 0;
  // If calls leave the process, ends those under way and all later ones with CANCELLED.
  virtual void Close() {}
};

// Returns "/shoal.v1.ChiefService/Heartbeat" for HeartbeatRequest. Every control call has a request
// of its own type.
std::string GetControlPath(const google::protobuf::Descriptor* request);

// A client of the generated `Service`. The proto file documents the calls and their errors. All
// calls are idempotent: after UNAVAILABLE or DEADLINE_EXCEEDED the caller repeats them (see
// retry.h). Thread-safe. There must be no call under way when it is destroyed.
template <typename Service>
class ControlClient {
 public:
  explicit ControlClient(std::unique_ptr<ControlChannel> channel) : channel_(std::move(channel)) {}

  template <typename Server, typename Request, typename Response>
  absl::Status Call(grpc::Status (Server::*method)(grpc::ServerContext*, const Request*, Response*),
                    const Request& request, Response* response) {
    static_assert(std::is_same_v<Server, typename Service::Service>, "a call of another service");
    ControlCall call;
    call.path = GetControlPath(Request::descriptor());
    call.timeout = GetControlTimeout(request);
    call.request = &request;
    call.response = response;
    call.serve = [method](grpc::Service* service, const google::protobuf::Message& asked,
                          google::protobuf::Message* answer) {
      return (static_cast<Server*>(service)->*method)(nullptr, static_cast<const Request*>(&asked),
                                                      static_cast<Response*>(answer));
    };
    return channel_->Make(call);
  }

  // Ends calls under way and all later ones with CANCELLED, if they leave the process.
  void Close() { channel_->Close(); }

 private:
  const std::unique_ptr<ControlChannel> channel_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CONTROL_CLIENT_H_
