#include "runtime/transport/status_conversion.h"

#include <grpcpp/support/status.h>

#include "absl/strings/ascii.h"

namespace shoal {
namespace {

constexpr size_t kMaxMessageBytes = 1024;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message().substr(0, kMaxMessageBytes)));
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // A code that this build does not know becomes UNKNOWN in absl::Status.
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      ToLogLine(status.error_message()));
}

std::string ToLogLine(absl::string_view untrusted) {
  std::string line(untrusted.substr(0, kMaxMessageBytes));
  for (char& c : line) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  return line;
}

}  // namespace shoal
