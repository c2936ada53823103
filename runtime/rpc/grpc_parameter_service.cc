#include "runtime/rpc/grpc_parameter_service.h"

#include <grpcpp/support/status.h>

#include "absl/strings/str_cat.h"

#include "proto/v1/parameter_service.grpc.pb.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/parameter_client.h"
#include "runtime/transport/call_status.h"

namespace shoal {
namespace {

class GrpcParameterService : public v1::ParameterService::Service {
 public:
  explicit GrpcParameterService(ParameterClient* target) : target_(target) {}

  grpc::Status LoadSlices(grpc::ServerContext* context, const v1::LoadSlicesRequest* request,
                          v1::LoadSlicesResponse* response) override {
    return Answer(context, &ParameterClient::LoadSlices, *request, response);
  }
  grpc::Status WithholdBatch(grpc::ServerContext* context, const v1::WithholdBatchRequest* request,
                             v1::WithholdBatchResponse* response) override {
    return Answer(context, &ParameterClient::WithholdBatch, *request, response);
  }
  grpc::Status DecideBatch(grpc::ServerContext* context, const v1::DecideBatchRequest* request,
                           v1::DecideBatchResponse* response) override {
    return Answer(context, &ParameterClient::DecideBatch, *request, response);
  }
  grpc::Status RequestCut(grpc::ServerContext* context, const v1::RequestCutRequest* request,
                          v1::RequestCutResponse* response) override {
    return Answer(context, &ParameterClient::RequestCut, *request, response);
  }
  grpc::Status GetApplied(grpc::ServerContext* context, const v1::GetAppliedRequest* request,
                          v1::GetAppliedResponse* response) override {
    return Answer(context, &ParameterClient::GetApplied, *request, response);
  }
  grpc::Status Finish(grpc::ServerContext* context, const v1::FinishRequest* request,
                      v1::FinishResponse* response) override {
    return Answer(context, &ParameterClient::Finish, *request, response);
  }

 private:
  // The server takes messages as large as the bulk path needs, whatever their method: gRPC has one
  // limit for all.
  template <typename Request, typename Response>
  grpc::Status Answer(grpc::ServerContext* context,
                      absl::Status (ParameterClient::*method)(const Request&, Response*),
                      const Request& request, Response* response) {
    const size_t bytes = request.ByteSizeLong();
    if (bytes > kMaxControlMessageBytes) {
      return AnswerOf(context,
                      absl::ResourceExhaustedError(absl::StrCat(
                          request.GetTypeName(), " of ", bytes,
                          " bytes is a message larger than max; control messages have at most ",
                          kMaxControlMessageBytes)));
    }
    return AnswerOf(context, (target_->*method)(request, response));
  }

  ParameterClient* const target_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewGrpcParameterService(ParameterClient* target) {
  return std::make_unique<GrpcParameterService>(target);
}

}  // namespace shoal
