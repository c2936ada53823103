// The service of proto/v1/chief_service.proto on a chief, for a server and for callers in the same
// process.
#ifndef SHOAL_RUNTIME_RPC_GRPC_CHIEF_SERVICE_H_
#define SHOAL_RUNTIME_RPC_GRPC_CHIEF_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"

#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/rpc/call_order.h"
#include "runtime/tls/refusals.h"
#include "runtime/transport/call_status.h"

namespace shoal {

// Decides which callers over a network may make which calls. A caller in the same process has no
// context and may make all.
class ChiefCallers {
 public:
  // A task registers, sends heartbeats and reports only with the job of its certificate.
  absl::Status CheckSender(const grpc::ServerContext* context, const v1::Identity& sender);
  // A task may report only batches that it computes itself. Only a chief or an operator, such as a
  // launcher, may report that another task died while it computed a batch.
  absl::Status CheckReporter(const grpc::ServerContext* context,
                             const v1::ReportBadBatchRequest& request);
  // Only permitted roles end a run.
  absl::Status CheckStop(const grpc::ServerContext* context, const v1::RequestStopRequest& request);

 private:
  // Logs a refusal once for each host that it came from.
  absl::Status Refuse(const grpc::ServerContext& context, const absl::Status& status);

  Refusals refusals_;
};

// `Target` has a function of the same name for each call, RegisterFor in place of RegisterTask, and
// OnDisconnect: Chief, or a fake of it. `target` must outlive the service. Each call may block.
template <typename Target>
class GrpcChiefService : public v1::ChiefService::Service {
 public:
  explicit GrpcChiefService(Target* target) : target_(target) {}

  grpc::Status RegisterTask(grpc::ServerContext* context, const v1::RegisterTaskRequest* request,
                            v1::RegisterTaskResponse* response) override {
    const absl::Status allowed = callers_.CheckSender(context, request->identity());
    if (!allowed.ok()) return MarkAnswer(context, allowed);
    const auto is_gone = [context] { return context != nullptr && context->IsCancelled(); };
    const uint64_t call = order_.Begin();
    const absl::Status status = target_->RegisterFor(is_gone, *request, response);
    if (status.ok()) {
      v1::Identity registered = request->identity();
      registered.set_incarnation(response->incarnation());
      order_.NoteCall(registered, call);
      if (is_gone()) Disconnect(registered, call);
    }
    return MarkAnswer(context, status);
  }
  grpc::Status Heartbeat(grpc::ServerContext* context, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override {
    const absl::Status allowed = callers_.CheckSender(context, request->identity());
    if (!allowed.ok()) return MarkAnswer(context, allowed);
    const uint64_t call = order_.Begin();
    order_.NoteCall(request->identity(), call);
    const absl::Status status = target_->Heartbeat(*request, response);
    // The heartbeat has waited here; its sender is gone if it is not interested in the answer.
    if (context != nullptr && context->IsCancelled()) Disconnect(request->identity(), call);
    return MarkAnswer(context, status);
  }
  grpc::Status ReportSteps(grpc::ServerContext* context, const v1::ReportStepsRequest* request,
                           v1::ReportStepsResponse* response) override {
    return ForMember(context, &Target::ReportSteps, *request, response);
  }
  grpc::Status ReportShard(grpc::ServerContext* context, const v1::ReportShardRequest* request,
                           v1::ReportShardResponse* response) override {
    return ForMember(context, &Target::ReportShard, *request, response);
  }
  grpc::Status ReportEvaluation(grpc::ServerContext* context,
                                const v1::ReportEvaluationRequest* request,
                                v1::ReportEvaluationResponse* response) override {
    return ForMember(context, &Target::ReportEvaluation, *request, response);
  }
  grpc::Status ReportBadBatch(grpc::ServerContext* context,
                              const v1::ReportBadBatchRequest* request,
                              v1::ReportBadBatchResponse* response) override {
    const absl::Status allowed = callers_.CheckReporter(context, *request);
    return MarkAnswer(context,
                      allowed.ok() ? target_->ReportBadBatch(*request, response) : allowed);
  }
  grpc::Status LeaseBatches(grpc::ServerContext* context, const v1::LeaseBatchesRequest* request,
                            v1::LeaseBatchesResponse* response) override {
    return ForMember(context, &Target::LeaseBatches, *request, response);
  }
  grpc::Status ReportNorms(grpc::ServerContext* context, const v1::ReportNormsRequest* request,
                           v1::ReportNormsResponse* response) override {
    return ForMember(context, &Target::ReportNorms, *request, response);
  }
  grpc::Status RequestStop(grpc::ServerContext* context, const v1::RequestStopRequest* request,
                           v1::RequestStopResponse* response) override {
    const absl::Status allowed = callers_.CheckStop(context, *request);
    return MarkAnswer(context, allowed.ok() ? target_->RequestStop(*request, response) : allowed);
  }
  grpc::Status GetRunStatus(grpc::ServerContext* context, const v1::GetRunStatusRequest* request,
                            v1::GetRunStatusResponse* response) override {
    return MarkAnswer(context, target_->GetRunStatus(*request, response));
  }

 private:
  // Answers a call that only a member may send, for itself: it renews the sender's lease.
  template <typename Request, typename Response>
  grpc::Status ForMember(grpc::ServerContext* context,
                         absl::Status (Target::*method)(const Request&, Response*),
                         const Request& request, Response* response) {
    const absl::Status allowed = callers_.CheckSender(context, request.identity());
    return MarkAnswer(context, allowed.ok() ? (target_->*method)(request, response) : allowed);
  }
  // Does nothing if the member has called again meanwhile, on another connection.
  void Disconnect(const v1::Identity& member, uint64_t call) {
    order_.UnlessLater(member, call, [&] { target_->OnDisconnect(member); });
  }

  Target* const target_;
  CallOrder order_;
  ChiefCallers callers_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_GRPC_CHIEF_SERVICE_H_
