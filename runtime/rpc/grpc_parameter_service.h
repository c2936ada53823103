// The service of proto/v1/parameter_service.proto on a ps, for a server and for a chief in the same
// process.
#ifndef SHOAL_RUNTIME_RPC_GRPC_PARAMETER_SERVICE_H_
#define SHOAL_RUNTIME_RPC_GRPC_PARAMETER_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "proto/v1/parameter_service.grpc.pb.h"
#include "runtime/rpc/channel.h"
#include "runtime/transport/call_status.h"

namespace shoal {

// `Target` has a function of the same name for each call. `target` must outlive the service. Each
// call may block.
template <typename Target>
class GrpcParameterService : public v1::ParameterService::Service {
 public:
  explicit GrpcParameterService(Target* target) : target_(target) {}

  grpc::Status LoadSlices(grpc::ServerContext* context, const v1::LoadSlicesRequest* request,
                          v1::LoadSlicesResponse* response) override {
    return Answer(context, &Target::LoadSlices, *request, response);
  }
  grpc::Status WithholdBatch(grpc::ServerContext* context, const v1::WithholdBatchRequest* request,
                             v1::WithholdBatchResponse* response) override {
    return Answer(context, &Target::WithholdBatch, *request, response);
  }
  grpc::Status DecideBatch(grpc::ServerContext* context, const v1::DecideBatchRequest* request,
                           v1::DecideBatchResponse* response) override {
    return Answer(context, &Target::DecideBatch, *request, response);
  }
  grpc::Status RequestCut(grpc::ServerContext* context, const v1::RequestCutRequest* request,
                          v1::RequestCutResponse* response) override {
    return Answer(context, &Target::RequestCut, *request, response);
  }
  grpc::Status GetApplied(grpc::ServerContext* context, const v1::GetAppliedRequest* request,
                          v1::GetAppliedResponse* response) override {
    return Answer(context, &Target::GetApplied, *request, response);
  }
  grpc::Status Finish(grpc::ServerContext* context, const v1::FinishRequest* request,
                      v1::FinishResponse* response) override {
    return Answer(context, &Target::Finish, *request, response);
  }

 private:
  // Refuses requests above kMaxControlMessageBytes. The server itself accepts larger ones, because
  // gRPC has one limit for all methods, and the bulk path needs a higher one.
  template <typename Request, typename Response>
  grpc::Status Answer(grpc::ServerContext* context,
                      absl::Status (Target::*method)(const Request&, Response*),
                      const Request& request, Response* response) {
    const size_t bytes = context == nullptr ? 0 : request.ByteSizeLong();
    if (bytes > kMaxControlMessageBytes) {
      return MarkAnswer(context,
                        absl::ResourceExhaustedError(absl::StrCat(
                            request.GetTypeName(), " of ", bytes,
                            " bytes is a message larger than max; control messages have at most ",
                            kMaxControlMessageBytes)));
    }
    return MarkAnswer(context, (target_->*method)(request, response));
  }

  Target* const target_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_GRPC_PARAMETER_SERVICE_H_
