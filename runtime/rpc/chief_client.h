// A client of the chief: the calls of proto/v1/chief_service.proto.
#ifndef SHOAL_RUNTIME_RPC_CHIEF_CLIENT_H_
#define SHOAL_RUNTIME_RPC_CHIEF_CLIENT_H_

#include "runtime/rpc/control_client.h"

namespace shoal {
namespace v1 {
class ChiefService;
}

using ChiefClient = ControlClient<v1::ChiefService>;

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CHIEF_CLIENT_H_
