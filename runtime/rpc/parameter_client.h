// A client of a ps: the calls of proto/v1/parameter_service.proto.
#ifndef SHOAL_RUNTIME_RPC_PARAMETER_CLIENT_H_
#define SHOAL_RUNTIME_RPC_PARAMETER_CLIENT_H_

#include "runtime/rpc/control_client.h"

namespace shoal {
namespace v1 {
class ParameterService;
}

using ParameterClient = ControlClient<v1::ParameterService>;

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_PARAMETER_CLIENT_H_
