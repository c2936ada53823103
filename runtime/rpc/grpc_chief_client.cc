#include "runtime/rpc/grpc_chief_client.h"

#include <utility>

#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/rpc/control_calls.h"

namespace shoal {
namespace {

using Stub = v1::ChiefService::Stub;

}  // namespace

class GrpcChiefClient::Core : public ControlStub<v1::ChiefService> {
 public:
  using ControlStub::ControlStub;
};

GrpcChiefClient::GrpcChiefClient(std::unique_ptr<PeerChannel> peer)
    : core_(std::make_unique<Core>(std::move(peer))) {}

GrpcChiefClient::~GrpcChiefClient() = default;

void GrpcChiefClient::Close() { core_->Close(); }

absl::Status GrpcChiefClient::RegisterTask(const v1::RegisterTaskRequest& request,
                                           v1::RegisterTaskResponse* response) {
  return core_->Call(&Stub::RegisterTask, request, response);
}

absl::Status GrpcChiefClient::Heartbeat(const v1::HeartbeatRequest& request,
                                        v1::HeartbeatResponse* response) {
  return core_->Call(&Stub::Heartbeat,
                     kControlTimeout + absl::Milliseconds(request.wait_milliseconds()), request,
                     response);
}

absl::Status GrpcChiefClient::ReportSteps(const v1::ReportStepsRequest& request,
                                          v1::ReportStepsResponse* response) {
  return core_->Call(&Stub::ReportSteps, request, response);
}

absl::Status GrpcChiefClient::ReportShard(const v1::ReportShardRequest& request,
                                          v1::ReportShardResponse* response) {
  return core_->Call(&Stub::ReportShard, request, response);
}

absl::Status GrpcChiefClient::ReportEvaluation(const v1::ReportEvaluationRequest& request,
                                               v1::ReportEvaluationResponse* response) {
  return core_->Call(&Stub::ReportEvaluation, request, response);
}

absl::Status GrpcChiefClient::ReportBadBatch(const v1::ReportBadBatchRequest& request,
                                             v1::ReportBadBatchResponse* response) {
  return core_->Call(&Stub::ReportBadBatch, request, response);
}

absl::Status GrpcChiefClient::LeaseBatches(const v1::LeaseBatchesRequest& request,
                                           v1::LeaseBatchesResponse* response) {
  return core_->Call(&Stub::LeaseBatches, request, response);
}

absl::Status GrpcChiefClient::ReportNorms(const v1::ReportNormsRequest& request,
                                          v1::ReportNormsResponse* response) {
  return core_->Call(&Stub::ReportNorms, request, response);
}

absl::Status GrpcChiefClient::RequestStop(const v1::RequestStopRequest& request,
                                          v1::RequestStopResponse* response) {
  return core_->Call(&Stub::RequestStop, request, response);
}

absl::Status GrpcChiefClient::GetRunStatus(const v1::GetRunStatusRequest& request,
                                           v1::GetRunStatusResponse* response) {
  return core_->Call(&Stub::GetRunStatus, request, response);
}

}  // namespace shoal
