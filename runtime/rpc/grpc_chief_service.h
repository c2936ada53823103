// Serves a ChiefClient over gRPC.
#ifndef SHOAL_RUNTIME_RPC_GRPC_CHIEF_SERVICE_H_
#define SHOAL_RUNTIME_RPC_GRPC_CHIEF_SERVICE_H_

#include <memory>

namespace grpc {
class Service;
}

namespace shoal {

class ChiefClient;

// Each call runs on a thread of gRPC's and may block. `target` must outlive the server.
std::unique_ptr<grpc::Service> NewGrpcChiefService(ChiefClient* target);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_GRPC_CHIEF_SERVICE_H_
