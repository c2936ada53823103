#include "runtime/rpc/status_conversion.h"

#include <grpcpp/support/status.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"

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
  const std::string message = status.error_message();
  // A code that this build does not know becomes UNKNOWN in absl::Status.
  return absl::Status(
      static_cast<absl::StatusCode>(status.error_code()),
      absl::StrReplaceAll(absl::Utf8SafeCEscape(message.substr(0, kMaxMessageBytes)),
                          {{"\\'", "'"}, {"\\\"", "\""}}));
}

}  // namespace shoal
