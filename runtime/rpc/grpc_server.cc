#include "runtime/rpc/grpc_server.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/memory_limit.h"
#include "base/notification.h"
#include "base/status_macros.h"
#include "runtime/cluster/address.h"
#include "runtime/rpc/listen_check.h"
#include "runtime/tls/credentials.h"
#include "runtime/transport/grpc_bulk_server.h"

namespace shoal {
namespace {

void SetArguments(const GrpcServer::Options& options, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder->SetMaxSendMessageSize(-1);
  // Our own clients ping every 10 s; gRPC's default would close their connections for it.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 64);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8 << 10);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 600'000);
  // Two servers on one port would share its connections at random; the second one must fail
  // instead.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  grpc::ResourceQuota quota("server");
  builder->SetResourceQuota(
      quota.Resize(options.memory_bytes > 0 ? options.memory_bytes : ReadMemoryLimit().bytes / 4));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Create(const Options& options) {
  if (options.credentials == nullptr) {
    RETURN_IF_ERROR(CheckListenAddress(options.address, options.insecure));
  }
  RETURN_IF_ERROR(CheckCanListen(options.address));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  SetArguments(options, &builder);
  int port = 0;
  builder.AddListeningPort(options.address, ServerCredentialsFor(options.credentials), &port);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  std::unique_ptr<grpc::CallbackGenericService> others;
  if (options.bulk != nullptr) {
    options.bulk->AddTo(&builder);
  } else if (options.services.empty()) {
    others = std::make_unique<grpc::CallbackGenericService>();
    builder.RegisterCallbackGenericService(others.get());
  }
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--listen_address: cannot listen at ", options.address,
        ": the port is in use, or the address does not belong to this machine; end the process "
        "that uses it, or name another address (port 0: any free one)"));
  }
  if (options.bulk != nullptr) options.bulk->Start();
  std::unique_ptr<GrpcServer> result(new GrpcServer(options, std::move(others), std::move(server),
                                                    WithPort(options.address, port), port));
  result->SetServing(false);
  return result;
}

GrpcServer::GrpcServer(const Options& options, std::unique_ptr<grpc::CallbackGenericService> others,
                       std::unique_ptr<grpc::Server> server, std::string address, int port)
    : bulk_(options.bulk),
      health_service_(options.health_service),
      others_(std::move(others)),
      server_(std::move(server)),
      address_(std::move(address)),
      port_(port) {}

GrpcServer::~GrpcServer() { Stop(absl::Milliseconds(500)).IgnoreError(); }

void GrpcServer::SetServing(bool serving) {
  if (health_service_.empty()) return;
  if (grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService()) {
    health->SetServingStatus(health_service_, serving);
  }
}

absl::Status GrpcServer::Stop(absl::Duration grace, absl::Duration limit) {
  if (stopped_) return absl::OkStatus();
  stopped_ = true;
  SetServing(false);
  // gRPC waits without end for a call that does not return, so the wait is another thread's.
  const auto done = std::make_shared<Notification>();
  std::thread([others = others_, server = server_, done,
               deadline = absl::ToChronoTime(absl::Now() + grace)] {
    server->Shutdown(deadline);
    done->Notify();
  }).detach();
  if (!done->WaitFor(grace + limit)) {
    // The thread destroys the server if ever that call returns.
    return absl::DeadlineExceededError(
        absl::StrCat("server ", address_, ": a call does not return"));
  }
  if (bulk_ != nullptr) bulk_->Stop();
  return absl::OkStatus();
}

}  // namespace shoal
