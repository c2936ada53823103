// The calls of proto/v1/parameter_service.proto as a C++ interface. The ps implements it. A chief
// in the same process calls the ps directly; others call it through GrpcParameterClient, and
// GrpcParameterService forwards their calls to the ps.
#ifndef SHOAL_RUNTIME_RPC_PARAMETER_CLIENT_H_
#define SHOAL_RUNTIME_RPC_PARAMETER_CLIENT_H_

#include "absl/status/status.h"

namespace shoal {
namespace v1 {
class DecideBatchRequest;
class DecideBatchResponse;
class FinishRequest;
class FinishResponse;
class GetAppliedRequest;
class GetAppliedResponse;
class LoadSlicesRequest;
class LoadSlicesResponse;
class RequestCutRequest;
class RequestCutResponse;
class WithholdBatchRequest;
class WithholdBatchResponse;
}  // namespace v1

// Thread-safe. Calls block until they are answered or a deadline ends (control_timeout.h);
// the proto file documents them and their errors. All calls are idempotent: after
// UNAVAILABLE or DEADLINE_EXCEEDED the caller repeats them.
class ParameterClient {
 public:
  virtual ~ParameterClient() = default;

  virtual absl::Status LoadSlices(const v1::LoadSlicesRequest& request,
                                  v1::LoadSlicesResponse* response) = 0;
  virtual absl::Status WithholdBatch(const v1::WithholdBatchRequest& request,
                                     v1::WithholdBatchResponse* response) = 0;
  virtual absl::Status DecideBatch(const v1::DecideBatchRequest& request,
                                   v1::DecideBatchResponse* response) = 0;
  virtual absl::Status RequestCut(const v1::RequestCutRequest& request,
                                  v1::RequestCutResponse* response) = 0;
  virtual absl::Status GetApplied(const v1::GetAppliedRequest& request,
                                  v1::GetAppliedResponse* response) = 0;
  virtual absl::Status Finish(const v1::FinishRequest& request, v1::FinishResponse* response) = 0;

  // Ends all calls that are under way, and all later ones, with CANCELLED. Has no effect for a ps
  // in the same process.
  virtual void Close() {}
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_PARAMETER_CLIENT_H_
