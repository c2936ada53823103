// Serves a ParameterClient over gRPC.
#ifndef SHOAL_RUNTIME_RPC_GRPC_PARAMETER_SERVICE_H_
#define SHOAL_RUNTIME_RPC_GRPC_PARAMETER_SERVICE_H_

#include <memory>

namespace grpc {
class Service;
}

namespace shoal {

class ParameterClient;

// Returns a service that forwards calls to `target`, which must outlive the server. Each call runs
// on one of gRPC's threads and may block.
std::unique_ptr<grpc::Service> NewGrpcParameterService(ParameterClient* target);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_GRPC_PARAMETER_SERVICE_H_
