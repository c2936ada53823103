// Who may connect to whom: mutual TLS where the user gives certificates, else plaintext that stays
// on the loopback interface unless the user says otherwise.
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

// PERMISSION_DENIED for a plaintext server's address that others can reach, unless `insecure`.
absl::Status CheckListenAddress(absl::string_view address, bool insecure);

// One process's side of mutual TLS 1.2 or 1.3. Connections are made with what is in the files then:
// they are read again every few seconds; connections that stand are kept. Peers need a certificate
// of the same authorities and scope, in date, see certificate_role.h. Thread-safe.
class Credentials {
 public:
  // How often files are looked at.
  static constexpr absl::Duration kRefresh = absl::Seconds(5);

  // Errors: see CheckTlsFiles.
  static absl::StatusOr<std::unique_ptr<Credentials>> Create(const TlsFiles& files, absl::Time now,
                                                             absl::Duration refresh = kRefresh);
  ~Credentials();
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  const CertificateIdentity& identity() const { return identity_; }

  // To a server whose certificate has one of `peer`; others are UNAVAILABLE.
  std::shared_ptr<grpc::ChannelCredentials> ForChannel(RoleSet peer) const;
  // Calls of clients without a role that may make them end with PERMISSION_DENIED before they reach
  // a service; logged once each.
  std::shared_ptr<grpc::ServerCredentials> ForServer() const;

 private:
  struct Source;

  Credentials(CertificateIdentity identity, std::unique_ptr<Source> source);

  const CertificateIdentity identity_;
  const std::unique_ptr<Source> source_;
};

// The same where `credentials` may be null: plaintext.
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsFor(const Credentials* credentials,
                                                                RoleSet peer);
std::shared_ptr<grpc::ServerCredentials> ServerCredentialsFor(const Credentials* credentials);

// PERMISSION_DENIED: the peer's certificate does not have the role. Of a plaintext connection
// nothing is known, and nothing refused.
absl::Status CheckPeerRole(const grpc::AuthContext& peer, RoleSet role);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TLS_CREDENTIALS_H_
