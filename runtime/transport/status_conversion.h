// absl::Status <-> grpc::Status. The codes are the same numbers; messages from the network are
// untrusted text.
#ifndef SHOAL_RUNTIME_TRANSPORT_STATUS_CONVERSION_H_
#define SHOAL_RUNTIME_TRANSPORT_STATUS_CONVERSION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace grpc {
class Status;
}

namespace shoal {

// Messages above 1 KiB are cut.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The message is made a LogLineOf.
absl::Status FromGrpcStatus(const grpc::Status& status);

// Text from the network, cut to 1 KiB, that can stand in a line of a log or terminal: a question
// mark is in place of each control character.
std::string LogLineOf(absl::string_view untrusted);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_STATUS_CONVERSION_H_
