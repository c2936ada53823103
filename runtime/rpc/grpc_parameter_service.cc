#include "runtime/rpc/grpc_parameter_service.h"

#include <grpcpp/support/status.h>

#include "proto/v1/parameter_service.grpc.pb.h"
#include "runtime/rpc/parameter_client.h"
#include "runtime/rpc/status_conversion.h"

namespace shoal {
namespace {

class GrpcParameterService : public v1::ParameterService::Service {
 public:
  explicit GrpcParameterService(ParameterClient* target) : target_(target) {}

  grpc::Status LoadSlices(grpc::ServerContext* /*context*/, const v1::LoadSlicesRequest* request,
                          v1::LoadSlicesResponse* response) override {
    return ToGrpcStatus(target_->LoadSlices(*request, response));
  }
  grpc::Status WithholdBatch(grpc::ServerContext* /*context*/,
                             const v1::WithholdBatchRequest* request,
                             v1::WithholdBatchResponse* response) override {
    return ToGrpcStatus(target_->WithholdBatch(*request, response));
  }
  grpc::Status DecideBatch(grpc::ServerContext* /*context*/, const v1::DecideBatchRequest* request,
                           v1::DecideBatchResponse* response) override {
    return ToGrpcStatus(target_->DecideBatch(*request, response));
  }
  grpc::Status RequestCut(grpc::ServerContext* /*context*/, const v1::RequestCutRequest* request,
                          v1::RequestCutResponse* response) override {
    return ToGrpcStatus(target_->RequestCut(*request, response));
  }
  grpc::Status GetApplied(grpc::ServerContext* /*context*/, const v1::GetAppliedRequest* request,
                          v1::GetAppliedResponse* response) override {
    return ToGrpcStatus(target_->GetApplied(*request, response));
  }
  grpc::Status Finish(grpc::ServerContext* /*context*/, const v1::FinishRequest* request,
                      v1::FinishResponse* response) override {
    return ToGrpcStatus(target_->Finish(*request, response));
  }

 private:
  ParameterClient* const target_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewGrpcParameterService(ParameterClient* target) {
  return std::make_unique<GrpcParameterService>(target);
}

}  // namespace shoal
