#include "runtime/rpc/grpc_parameter_client.h"

#include <grpcpp/channel.h>

#include <utility>

#include "proto/v1/parameter_service.grpc.pb.h"
#include "runtime/rpc/control_calls.h"

namespace shoal {
namespace {

using Stub = v1::ParameterService::Stub;

constexpr absl::Duration kTimeout = absl::Seconds(5);
// Reads a shard from disk, or draws initial values.
constexpr absl::Duration kLoadTimeout = absl::Minutes(5);

}  // namespace

class GrpcParameterClient::Core {
 public:
  explicit Core(std::shared_ptr<grpc::Channel> channel) : stub_(std::move(channel)) {}

  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    absl::Duration timeout, const Request& request, Response* response) {
    return calls_.Call(&stub_, method, timeout, request, response);
  }
  void Close() { calls_.Close(); }

 private:
  Stub stub_;
  ControlCalls calls_;
};

GrpcParameterClient::GrpcParameterClient(std::shared_ptr<grpc::Channel> channel)
    : core_(std::make_unique<Core>(std::move(channel))) {}

GrpcParameterClient::~GrpcParameterClient() = default;

void GrpcParameterClient::Close() { core_->Close(); }

absl::Status GrpcParameterClient::LoadSlices(const v1::LoadSlicesRequest& request,
                                             v1::LoadSlicesResponse* response) {
  return core_->Call(&Stub::LoadSlices, kLoadTimeout, request, response);
}

absl::Status GrpcParameterClient::WithholdBatch(const v1::WithholdBatchRequest& request,
                                                v1::WithholdBatchResponse* response) {
  return core_->Call(&Stub::WithholdBatch, kTimeout, request, response);
}

absl::Status GrpcParameterClient::DecideBatch(const v1::DecideBatchRequest& request,
                                              v1::DecideBatchResponse* response) {
  return core_->Call(&Stub::DecideBatch, kTimeout, request, response);
}

absl::Status GrpcParameterClient::RequestCut(const v1::RequestCutRequest& request,
                                             v1::RequestCutResponse* response) {
  return core_->Call(&Stub::RequestCut, kTimeout, request, response);
}

absl::Status GrpcParameterClient::GetApplied(const v1::GetAppliedRequest& request,
                                             v1::GetAppliedResponse* response) {
  return core_->Call(&Stub::GetApplied, kTimeout, request, response);
}

absl::Status GrpcParameterClient::Finish(const v1::FinishRequest& request,
                                         v1::FinishResponse* response) {
  return core_->Call(&Stub::Finish, kTimeout, request, response);
}

}  // namespace shoal
