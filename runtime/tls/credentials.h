// The security of connections: mutual TLS if the user gives certificates, otherwise plaintext,
// which is limited to the loopback interface unless the user allows more.
#ifndef SHOAL_RUNTIME_TLS_CREDENTIALS_H_
#define SHOAL_RUNTIME_TLS_CREDENTIALS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "runtime/tls/certificate_role.h"
#include "runtime/tls/tls_files.h"

namespace grpc {
class AuthContext;
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace shoal {

// Returns PERMISSION_DENIED if other machines can reach a plaintext server at this address, unless
// `insecure`.
absl::Status CheckListenAddress(absl::string_view address, bool insecure);

// One process's side of mutual TLS 1.2 or 1.3. The files are read again every few seconds; new
// connections use the newest contents, existing ones are kept. Peers need a valid certificate of
// the same authorities and scope, see certificate_role.h. Thread-safe.
class Credentials {
 public:
  // The interval between readings of the files.
  static constexpr absl::Duration kRefresh = absl::Seconds(5);

  // Reads the files. For errors see CheckTlsFiles.
  static absl::StatusOr<std::unique_ptr<Credentials>> Create(const TlsFiles& files, absl::Time now,
                                                             absl::Duration refresh = kRefresh);
  ~Credentials();
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  const CertificateIdentity& identity() const { return identity_; }

  // Returns credentials for a server whose certificate has one of the roles in `peer`; other
  // servers are UNAVAILABLE.
  std::shared_ptr<grpc::ChannelCredentials> ForChannel(RoleSet peer) const;
  // Returns credentials for a server. Calls by clients whose role may not make them end with
  // PERMISSION_DENIED before they reach a service, and each is logged once.
  std::shared_ptr<grpc::ServerCredentials> ForServer() const;

 private:
  struct Source;

  Credentials(CertificateIdentity identity, std::unique_ptr<Source> source);

  const CertificateIdentity identity_;
  const std::unique_ptr<Source> source_;
};

// The same functions, which also accept null `credentials` and then return plaintext ones.
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsFor(const Credentials* credentials,
                                                                RoleSet peer);
std::shared_ptr<grpc::ServerCredentials> ServerCredentialsFor(const Credentials* credentials);

// Returns PERMISSION_DENIED if the peer's certificate does not have the role. A plaintext
// connection has no certificate and is accepted.
absl::Status CheckPeerRole(const grpc::AuthContext& peer, RoleSet role);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TLS_CREDENTIALS_H_
