#include "runtime/rpc/credentials.h"

#include <arpa/inet.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace shoal {

bool IsLoopbackAddress(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const size_t colon = address.rfind(':');
  const std::string host(address.substr(0, colon));
  if (host == "localhost" || host == "[::1]") return true;
  in_addr v4;
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

absl::Status CheckListenAddress(absl::string_view address, bool insecure) {
  if (insecure || IsLoopbackAddress(address)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "address ", address, " can be reached by other machines and connections are not ",
      "encrypted; give --insecure on a trusted network"));
}

std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials() {
  return grpc::InsecureChannelCredentials();
}

std::shared_ptr<grpc::ServerCredentials> NewServerCredentials() {
  return grpc::InsecureServerCredentials();
}

}  // namespace shoal
