#include "runtime/rpc/grpc_parameter_client.h"

#include <utility>

#include "proto/v1/parameter_service.grpc.pb.h"
#include "runtime/rpc/control_calls.h"
#include "runtime/rpc/control_timeout.h"

namespace shoal {
namespace {

using Stub = v1::ParameterService::Stub;

}  // namespace

class GrpcParameterClient::Core : public ControlStub<v1::ParameterService> {
 public:
  using ControlStub::ControlStub;
};

GrpcParameterClient::GrpcParameterClient(std::unique_ptr<PeerChannel> peer)
    : core_(std::make_unique<Core>(std::move(peer))) {}

GrpcParameterClient::~GrpcParameterClient() = default;

void GrpcParameterClient::Close() { core_->Close(); }

absl::Status GrpcParameterClient::LoadSlices(const v1::LoadSlicesRequest& request,
                                             v1::LoadSlicesResponse* response) {
  return core_->Call(&Stub::LoadSlices, kLoadTimeout, request, response);
}

absl::Status GrpcParameterClient::WithholdBatch(const v1::WithholdBatchRequest& request,
                                                v1::WithholdBatchResponse* response) {
  return core_->Call(&Stub::WithholdBatch, request, response);
}

absl::Status GrpcParameterClient::DecideBatch(const v1::DecideBatchRequest& request,
                                              v1::DecideBatchResponse* response) {
  return core_->Call(&Stub::DecideBatch, request, response);
}

absl::Status GrpcParameterClient::RequestCut(const v1::RequestCutRequest& request,
                                             v1::RequestCutResponse* response) {
  return core_->Call(&Stub::RequestCut, request, response);
}

absl::Status GrpcParameterClient::GetApplied(const v1::GetAppliedRequest& request,
                                             v1::GetAppliedResponse* response) {
  return core_->Call(&Stub::GetApplied, request, response);
}

absl::Status GrpcParameterClient::Finish(const v1::FinishRequest& request,
                                         v1::FinishResponse* response) {
  return core_->Call(&Stub::Finish, request, response);
}

}  // namespace shoal
