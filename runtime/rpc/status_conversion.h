// absl::Status <-> grpc::Status. The codes are the same numbers; messages from the network are
// untrusted text.
#ifndef SHOAL_RUNTIME_RPC_STATUS_CONVERSION_H_
#define SHOAL_RUNTIME_RPC_STATUS_CONVERSION_H_

#include "absl/status/status.h"

namespace grpc {
class Status;
}

namespace shoal {

// Messages above 1 KiB are cut.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The message is cut to 1 KiB and escaped, so that it can stand in a log line.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_STATUS_CONVERSION_H_
