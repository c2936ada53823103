// Serves a ChiefClient over gRPC.
#ifndef SHOAL_RUNTIME_RPC_GRPC_CHIEF_SERVICE_H_
#define SHOAL_RUNTIME_RPC_GRPC_CHIEF_SERVICE_H_

#include <memory>

namespace grpc {
class Service;
}

namespace shoal {

class ChiefClient;

// Returns a service that forwards calls to `target`, which must outlive the server. Each call runs
// on one of gRPC's threads and may block.
std::unique_ptr<grpc::Service> NewGrpcChiefService(ChiefClient* target);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_GRPC_CHIEF_SERVICE_H_
