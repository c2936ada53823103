// ChiefClient over gRPC.
#ifndef SHOAL_RUNTIME_RPC_GRPC_CHIEF_CLIENT_H_
#define SHOAL_RUNTIME_RPC_GRPC_CHIEF_CLIENT_H_

#include <memory>

#include "runtime/rpc/chief_client.h"

namespace shoal {

class PeerChannel;

class GrpcChiefClient : public ChiefClient {
 public:
  explicit GrpcChiefClient(std::unique_ptr<PeerChannel> peer);
  // There must be no call under way.
  ~GrpcChiefClient() override;

  // Ends all calls that are under way, and all later ones, with CANCELLED.
  void Close();

  absl::Status RegisterTask(const v1::RegisterTaskRequest& request,
                            v1::RegisterTaskResponse* response) override;
  absl::Status Heartbeat(const v1::HeartbeatRequest& request,
                         v1::HeartbeatResponse* response) override;
  absl::Status ReportSteps(const v1::ReportStepsRequest& request,
                           v1::ReportStepsResponse* response) override;
  absl::Status ReportShard(const v1::ReportShardRequest& request,
                           v1::ReportShardResponse* response) override;
  absl::Status ReportEvaluation(const v1::ReportEvaluationRequest& request,
                                v1::ReportEvaluationResponse* response) override;
  absl::Status ReportBadBatch(const v1::ReportBadBatchRequest& request,
                              v1::ReportBadBatchResponse* response) override;
  absl::Status LeaseBatches(const v1::LeaseBatchesRequest& request,
                            v1::LeaseBatchesResponse* response) override;
  absl::Status ReportNorms(const v1::ReportNormsRequest& request,
                           v1::ReportNormsResponse* response) override;
  absl::Status RequestStop(const v1::RequestStopRequest& request,
                           v1::RequestStopResponse* response) override;
  absl::Status GetRunStatus(const v1::GetRunStatusRequest& request,
                            v1::GetRunStatusResponse* response) override;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_GRPC_CHIEF_CLIENT_H_
