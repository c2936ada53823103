#include "runtime/rpc/health_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "runtime/transport/status_conversion.h"

namespace shoal {
namespace {

constexpr char kMethod[] = "/grpc.health.v1.Health/Check";
constexpr size_t kMaxServiceBytes = 127;  // One byte of length.

// HealthCheckRequest { string service = 1; }
std::string RequestBytes(const std::string& service) {
  if (service.empty()) return "";
  return absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
}

// HealthCheckResponse { ServingStatus status = 1; }, SERVING being 1.
bool IsServing(absl::string_view response) {
  return response.size() == 2 && response[0] == 0x08 && response[1] == 1;
}

}  // namespace

absl::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service,
                         absl::Duration timeout) {
  if (service.size() > kMaxServiceBytes) {
    return absl::InvalidArgumentError("--service: is too long; there are ps, chief and worker");
  }
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  const grpc::internal::RpcMethod method(kMethod, grpc::internal::RpcMethod::NORMAL_RPC, channel);
  const grpc::Slice slice(RequestBytes(service));
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer,
                                                                grpc::ByteBuffer, grpc::ByteBuffer>(
      channel.get(), method, &context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  grpc::Slice bytes;
  if (!response.DumpToSingleSlice(&bytes).ok()) return absl::InternalError("no health response");
  const absl::string_view text(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  return IsServing(text) ? absl::OkStatus() : absl::UnavailableError("does not serve");
}

}  // namespace shoal
