// ParameterClient over gRPC.
#ifndef SHOAL_RUNTIME_RPC_GRPC_PARAMETER_CLIENT_H_
#define SHOAL_RUNTIME_RPC_GRPC_PARAMETER_CLIENT_H_

#include <memory>

#include "runtime/rpc/parameter_client.h"

namespace shoal {

class PeerChannel;

class GrpcParameterClient : public ParameterClient {
 public:
  explicit GrpcParameterClient(std::unique_ptr<PeerChannel> peer);
  // There must be no call under way.
  ~GrpcParameterClient() override;

  absl::Status LoadSlices(const v1::LoadSlicesRequest& request,
                          v1::LoadSlicesResponse* response) override;
  absl::Status WithholdBatch(const v1::WithholdBatchRequest& request,
                             v1::WithholdBatchResponse* response) override;
  absl::Status DecideBatch(const v1::DecideBatchRequest& request,
                           v1::DecideBatchResponse* response) override;
  absl::Status RequestCut(const v1::RequestCutRequest& request,
                          v1::RequestCutResponse* response) override;
  absl::Status GetApplied(const v1::GetAppliedRequest& request,
                          v1::GetAppliedResponse* response) override;
  absl::Status Finish(const v1::FinishRequest& request, v1::FinishResponse* response) override;
  void Close() override;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_GRPC_PARAMETER_CLIENT_H_
