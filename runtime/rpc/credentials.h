// Who may listen where. Connections are not encrypted in this version, so everything stays on the
// loopback interface unless the user says otherwise.
#ifndef SHOAL_RUNTIME_RPC_CREDENTIALS_H_
#define SHOAL_RUNTIME_RPC_CREDENTIALS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace shoal {

// host:port, [v6]:port or unix:path on this machine. Names other than localhost are not looked up
// and do not count.
bool IsLoopbackAddress(absl::string_view address);

// PERMISSION_DENIED for a server's address that others can reach, unless `insecure`.
absl::Status CheckListenAddress(absl::string_view address, bool insecure);

std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials();
std::shared_ptr<grpc::ServerCredentials> NewServerCredentials();

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CREDENTIALS_H_
