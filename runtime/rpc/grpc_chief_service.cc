#include "runtime/rpc/grpc_chief_service.h"

#include <grpcpp/security/auth_context.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "runtime/cluster/address.h"
#include "runtime/tls/credentials.h"

namespace shoal {
namespace {

// "10.0.0.7:41234" of what gRPC calls "ipv4:10.0.0.7:41234", "[fd00::7]:1" of
// "ipv6:%5Bfd00::7%5D:1".
std::string GetPeerAddress(const grpc::ServerContext& context) {
  std::string peer = absl::StrReplaceAll(context.peer(), {{"%5B", "["}, {"%5D", "]"}});
  return std::string(absl::StripPrefix(absl::StripPrefix(peer, "ipv4:"), "ipv6:"));
}

}  // namespace

absl::Status ChiefCallers::CheckSender(const grpc::ServerContext* context,
                                       const v1::Identity& sender) {
  if (context == nullptr) return absl::OkStatus();
  const RoleSet role = sender.member().job() == v1::JOB_PS ? kRolePs : kRoleWorker;
  return Refuse(*context, CheckPeerRole(*context->auth_context(), role));
}

absl::Status ChiefCallers::CheckReporter(const grpc::ServerContext* context,
                                         const v1::ReportBadBatchRequest& request) {
  if (context == nullptr) return absl::OkStatus();
  if (!request.has_died()) return CheckSender(context, request.identity());
  if (CheckPeerRole(*context->auth_context(), kRoleChief | kRoleOperator).ok()) {
    return absl::OkStatus();
  }
  return Refuse(*context,
                absl::PermissionDeniedError(absl::StrCat("deaths of workers are reported only by ",
                                                         RoleNames(kRoleChief | kRoleOperator))));
}

absl::Status ChiefCallers::CheckStop(const grpc::ServerContext* context,
                                     const v1::RequestStopRequest& request) {
  if (context == nullptr || !request.stop() ||
      CheckPeerRole(*context->auth_context(), kRoleChief | kRoleOperator).ok()) {
    return absl::OkStatus();
  }
  return Refuse(*context, absl::PermissionDeniedError(absl::StrCat(
                              "a task may ask for a checkpoint, but the run is ended only by ",
                              RoleNames(kRoleChief | kRoleOperator))));
}

absl::Status ChiefCallers::Refuse(const grpc::ServerContext& context, const absl::Status& status) {
  if (status.ok()) return status;
  const std::string peer = GetPeerAddress(context);
  if (refusals_.IsFirst(absl::StrCat(GetHost(peer), " ", status.message()), absl::Now())) {
    LOG(WARNING) << "refused: " << status.message() << ", it came from " << peer;
  }
  return status;
}

}  // namespace shoal
