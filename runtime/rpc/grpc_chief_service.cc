#include "runtime/rpc/grpc_chief_service.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/cluster/address.h"
#include "runtime/rpc/call_order.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/tls/credentials.h"
#include "runtime/tls/refusals.h"
#include "runtime/transport/call_status.h"

namespace shoal {
namespace {

// credentials.h has checked the caller's role. The checks here ensure that a task registers, sends
// heartbeats and reports only with the job of its certificate, and that only permitted roles end a
// run.
absl::Status CheckSender(const grpc::ServerContext& context, const v1::Identity& sender) {
  const RoleSet role = sender.member().job() == v1::JOB_PS ? kRolePs : kRoleWorker;
  return CheckPeerRole(*context.auth_context(), role);
}

// A task reports the batches that it computes itself; that another one died of a batch, only those
// may report who start tasks or end the run.
absl::Status CheckReporter(const grpc::ServerContext& context,
                           const v1::ReportBadBatchRequest& request) {
  if (!request.has_died()) return CheckSender(context, request.identity());
  if (CheckPeerRole(*context.auth_context(), kRoleChief | kRoleOperator).ok()) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat("deaths of workers are reported only by ",
                                                  RoleNames(kRoleChief | kRoleOperator)));
}

// "10.0.0.7:41234" of what gRPC calls "ipv4:10.0.0.7:41234", "[fd00::7]:1" of
// "ipv6:%5Bfd00::7%5D:1".
std::string AddressOf(const grpc::ServerContext& context) {
  std::string peer = absl::StrReplaceAll(context.peer(), {{"%5B", "["}, {"%5D", "]"}});
  return std::string(absl::StripPrefix(absl::StripPrefix(peer, "ipv4:"), "ipv6:"));
}

class GrpcChiefService : public v1::ChiefService::Service {
 public:
  explicit GrpcChiefService(ChiefClient* target) : target_(target) {}

  grpc::Status RegisterTask(grpc::ServerContext* context, const v1::RegisterTaskRequest* request,
                            v1::RegisterTaskResponse* response) override {
    const absl::Status allowed = CheckSender(*context, request->identity());
    if (!allowed.ok()) return Refused(context, allowed);
    const auto is_gone = [context] { return context->IsCancelled(); };
    const uint64_t call = order_.Begin();
    const absl::Status status = target_->RegisterFor(is_gone, *request, response);
    if (status.ok()) {
      v1::Identity registered = request->identity();
      registered.set_incarnation(response->incarnation());
      order_.IsOf(registered, call);
      if (is_gone()) Disconnect(registered, call);
    }
    return AnswerOf(context, status);
  }
  grpc::Status Heartbeat(grpc::ServerContext* context, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override {
    const absl::Status allowed = CheckSender(*context, request->identity());
    if (!allowed.ok()) return Refused(context, allowed);
    const uint64_t call = order_.Begin();
    order_.IsOf(request->identity(), call);
    const absl::Status status = target_->Heartbeat(*request, response);
    // The heartbeat has waited here; its sender is gone if it is not interested in the answer.
    if (context->IsCancelled()) Disconnect(request->identity(), call);
    return AnswerOf(context, status);
  }
  grpc::Status ReportSteps(grpc::ServerContext* context, const v1::ReportStepsRequest* request,
                           v1::ReportStepsResponse* response) override {
    return ForMember(context, &ChiefClient::ReportSteps, *request, response);
  }
  grpc::Status ReportShard(grpc::ServerContext* context, const v1::ReportShardRequest* request,
                           v1::ReportShardResponse* response) override {
    return ForMember(context, &ChiefClient::ReportShard, *request, response);
  }
  grpc::Status ReportEvaluation(grpc::ServerContext* context,
                                const v1::ReportEvaluationRequest* request,
                                v1::ReportEvaluationResponse* response) override {
    return ForMember(context, &ChiefClient::ReportEvaluation, *request, response);
  }
  grpc::Status ReportBadBatch(grpc::ServerContext* context,
                              const v1::ReportBadBatchRequest* request,
                              v1::ReportBadBatchResponse* response) override {
    const absl::Status allowed = CheckReporter(*context, *request);
    if (!allowed.ok()) return Refused(context, allowed);
    return AnswerOf(context, target_->ReportBadBatch(*request, response));
  }
  grpc::Status LeaseBatches(grpc::ServerContext* context, const v1::LeaseBatchesRequest* request,
                            v1::LeaseBatchesResponse* response) override {
    return ForMember(context, &ChiefClient::LeaseBatches, *request, response);
  }
  grpc::Status ReportNorms(grpc::ServerContext* context, const v1::ReportNormsRequest* request,
                           v1::ReportNormsResponse* response) override {
    return ForMember(context, &ChiefClient::ReportNorms, *request, response);
  }
  grpc::Status RequestStop(grpc::ServerContext* context, const v1::RequestStopRequest* request,
                           v1::RequestStopResponse* response) override {
    if (request->stop() &&
        !CheckPeerRole(*context->auth_context(), kRoleChief | kRoleOperator).ok()) {
      return Refused(context, absl::PermissionDeniedError(absl::StrCat(
                                  "a task may ask for a checkpoint, but the run is ended only by ",
                                  RoleNames(kRoleChief | kRoleOperator))));
    }
    return AnswerOf(context, target_->RequestStop(*request, response));
  }
  grpc::Status GetRunStatus(grpc::ServerContext* context, const v1::GetRunStatusRequest* request,
                            v1::GetRunStatusResponse* response) override {
    return AnswerOf(context, target_->GetRunStatus(*request, response));
  }

 private:
  // Answers a call that only a member may send, for itself: it renews the sender's lease.
  template <typename Request, typename Response>
  grpc::Status ForMember(grpc::ServerContext* context,
                         absl::Status (ChiefClient::*method)(const Request&, Response*),
                         const Request& request, Response* response) {
    const absl::Status allowed = CheckSender(*context, request.identity());
    if (!allowed.ok()) return Refused(context, allowed);
    return AnswerOf(context, (target_->*method)(request, response));
  }
  // Not if it has called again meanwhile, on another connection.
  void Disconnect(const v1::Identity& member, uint64_t call) {
    order_.UnlessLater(member, call, [&] { target_->OnDisconnect(member); });
  }

  // Said once for each of the hosts that it came from.
  grpc::Status Refused(grpc::ServerContext* context, const absl::Status& status) {
    const std::string peer = AddressOf(*context);
    if (refusals_.IsFirst(absl::StrCat(HostOf(peer), " ", status.message()), absl::Now())) {
      LOG(WARNING) << "refused: " << status.message() << ", it came from " << peer;
    }
    return AnswerOf(context, status);
  }

  ChiefClient* const target_;
  CallOrder order_;
  Refusals refusals_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewGrpcChiefService(ChiefClient* target) {
  return std::make_unique<GrpcChiefService>(target);
}

}  // namespace shoal
