// The calls of proto/v1/chief_service.proto as a C++ interface. The chief implements it. Tasks in
// the same process call the chief directly; others call it through GrpcChiefClient, and
// GrpcChiefService forwards their calls to the chief.
#ifndef SHOAL_RUNTIME_RPC_CHIEF_CLIENT_H_
#define SHOAL_RUNTIME_RPC_CHIEF_CLIENT_H_

#include <functional>

#include "absl/status/status.h"

namespace shoal {
namespace v1 {
class GetRunStatusRequest;
class GetRunStatusResponse;
class HeartbeatRequest;
class HeartbeatResponse;
class Identity;
class LeaseBatchesRequest;
class LeaseBatchesResponse;
class RegisterTaskRequest;
class RegisterTaskResponse;
class ReportBadBatchRequest;
class ReportBadBatchResponse;
class ReportEvaluationRequest;
class ReportEvaluationResponse;
class ReportNormsRequest;
class ReportNormsResponse;
class ReportShardRequest;
class ReportShardResponse;
class ReportStepsRequest;
class ReportStepsResponse;
class RequestStopRequest;
class RequestStopResponse;
}  // namespace v1

// Thread-safe. Calls block until they are answered or a deadline of some seconds ends; the proto
// file documents them and their errors. All calls are idempotent: after UNAVAILABLE or
// DEADLINE_EXCEEDED the caller repeats them (see retry.h).
class ChiefClient {
 public:
  virtual ~ChiefClient() = default;

  virtual absl::Status RegisterTask(const v1::RegisterTaskRequest& request,
                                    v1::RegisterTaskResponse* response) = 0;
  // The same as RegisterTask, for a server that forwards the call. The call may wait for a place to
  // become free. It registers no task, and returns CANCELLED, once `is_gone` returns true because
  // the caller has disconnected. `is_gone` is called often, with locks held.
  virtual absl::Status RegisterFor(const std::function<bool()>& /*is_gone*/,
                                   const v1::RegisterTaskRequest& request,
                                   v1::RegisterTaskResponse* response) {
    return RegisterTask(request, response);
  }
  virtual absl::Status Heartbeat(const v1::HeartbeatRequest& request,
                                 v1::HeartbeatResponse* response) = 0;
  virtual absl::Status ReportSteps(const v1::ReportStepsRequest& request,
                                   v1::ReportStepsResponse* response) = 0;
  virtual absl::Status ReportShard(const v1::ReportShardRequest& request,
                                   v1::ReportShardResponse* response) = 0;
  virtual absl::Status ReportEvaluation(const v1::ReportEvaluationRequest& request,
                                        v1::ReportEvaluationResponse* response) = 0;
  virtual absl::Status ReportBadBatch(const v1::ReportBadBatchRequest& request,
                                      v1::ReportBadBatchResponse* response) = 0;
  virtual absl::Status LeaseBatches(const v1::LeaseBatchesRequest& request,
                                    v1::LeaseBatchesResponse* response) = 0;
  virtual absl::Status ReportNorms(const v1::ReportNormsRequest& request,
                                   v1::ReportNormsResponse* response) = 0;
  virtual absl::Status RequestStop(const v1::RequestStopRequest& request,
                                   v1::RequestStopResponse* response) = 0;
  virtual absl::Status GetRunStatus(const v1::GetRunStatusRequest& request,
                                    v1::GetRunStatusResponse* response) = 0;

  // Not an RPC: the server calls this when a member's connection has broken. The member may be
  // dead, or may reconnect.
  virtual void OnDisconnect(const v1::Identity& /*member*/) {}
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CHIEF_CLIENT_H_
