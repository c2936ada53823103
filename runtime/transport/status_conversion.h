// Conversions between absl::Status and grpc::Status. The codes have the same numbers; messages from
// the network are untrusted text.
#ifndef SHOAL_RUNTIME_TRANSPORT_STATUS_CONVERSION_H_
#define SHOAL_RUNTIME_TRANSPORT_STATUS_CONVERSION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace grpc {
class Status;
}

namespace shoal {

// Truncates messages above 1 KiB.
grpc::Status ToGrpcStatus(const absl::Status& status);

// Converts the message with ToLogLine.
absl::Status FromGrpcStatus(const grpc::Status& status);

// Returns text from the network in a form that is safe in a log line or on a terminal: truncated to
// 1 KiB, with a question mark in place of each control character.
std::string ToLogLine(absl::string_view untrusted);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_STATUS_CONVERSION_H_
