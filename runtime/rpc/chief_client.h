// The calls of proto/v1/chief_service.proto as a C++ interface. The chief implements it; whoever
// shares its process calls it directly, others through GrpcChiefClient, and GrpcChiefService serves
// it to them.
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

// Thread-safe. Calls block until answered or a deadline of seconds; the proto file says what they
// do and which errors they have. All are idempotent: after UNAVAILABLE or DEADLINE_EXCEEDED the
// caller repeats them (see retry.h).
class ChiefClient {
 public:
  virtual ~ChiefClient() = default;

  virtual absl::Status RegisterTask(const v1::RegisterTaskRequest& request,
                                    v1::RegisterTaskResponse* response) = 0;
  // As RegisterTask, for whoever serves this object to others. A call may wait for a place to
  // become free: nobody is registered for a caller that `is_gone`, CANCELLED. It is asked often,
  // with locks held.
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

  // Not a call: whoever serves this object to others saw that a member's connection broke. It may
  // be dead, or come again.
  virtual void OnDisconnect(const v1::Identity& /*member*/) {}
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CHIEF_CLIENT_H_
