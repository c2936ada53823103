#include "runtime/tls/credentials.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "runtime/cluster/address.h"
#include "runtime/process/recent_peers.h"
#include "runtime/tls/refusals.h"

namespace shoal {
namespace {

namespace tls = grpc::experimental;

std::vector<std::string> ToStrings(const std::vector<grpc::string_ref>& texts) {
  std::vector<std::string> strings;
  for (const grpc::string_ref& text : texts) strings.emplace_back(text.data(), text.size());
  return strings;
}

std::string Describe(const CertificateIdentity& identity) {
  return identity.roles == 0 ? "a certificate without a role"
                             : absl::StrCat(identity.scope, "/", RoleNames(identity.roles));
}

// The client's check of the roles in the server's certificate. The library has checked its
// signature and dates already.
class PeerVerifier : public tls::ExternalCertificateVerifier {
 public:
  PeerVerifier(std::string scope, RoleSet roles) : scope_(std::move(scope)), roles_(roles) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* result) override {
    const CertificateIdentity peer = ParseIdentity(ToStrings(request->uri_names()));
    if (peer.scope != scope_ || (peer.roles & roles_) == 0) {
      *result = grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                             absl::StrCat("wanted ", scope_, "/", RoleNames(roles_),
                                          ", but the certificate there is of ", Describe(peer)));
    }
    return true;
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  const std::string scope_;
  const RoleSet roles_;
};

CertificateIdentity IdentityOfPeer(const grpc::AuthContext& peer) {
  return ParseIdentity(ToStrings(peer.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)));
}

// Checks every call that a server receives before its service gets it.
class MethodGuard : public grpc::AuthMetadataProcessor {
 public:
  explicit MethodGuard(std::string scope) : scope_(std::move(scope)) {}

  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) override {
    const auto path = metadata.find(":path");
    const absl::string_view method =
        path == metadata.end() ? absl::string_view()
                               : absl::string_view(path->second.data(), path->second.size());
    const CertificateIdentity peer = IdentityOfPeer(*context);
    const RoleSet allowed = RolesAllowed(method);
    if (peer.scope == scope_ && (peer.roles & allowed) != 0) return grpc::Status::OK;
    const std::string why =
        peer.scope == scope_ ? absl::StrCat(Describe(peer), " may not call ", Shortened(method),
                                            ", only ", RoleNames(allowed))
                             : absl::StrCat(Describe(peer), " is not of this run's scope ", scope_);
    if (refusals_.IsFirst(why, absl::Now())) LOG(WARNING) << "refused: " << why << CameFrom();
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, why);
  }

 private:
  static absl::string_view Shortened(absl::string_view method) { return method.substr(0, 100); }

  const std::string scope_;
  Refusals refusals_;
};

}  // namespace

struct Credentials::Source {
  std::shared_ptr<tls::CertificateProviderInterface> provider;
};

absl::StatusOr<std::unique_ptr<Credentials>> Credentials::Create(const TlsFiles& files,
                                                                 absl::Time now,
                                                                 absl::Duration refresh) {
  ASSIGN_OR_RETURN(CertificateIdentity identity, CheckTlsFiles(files, now));
  LogHandshakesOnce();
  auto source = std::make_unique<Source>();
  source->provider = std::make_shared<tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.authorities,
      static_cast<unsigned>(std::max<int64_t>(1, absl::ToInt64Seconds(refresh))));
  return absl::WrapUnique(new Credentials(std::move(identity), std::move(source)));
}

Credentials::Credentials(CertificateIdentity identity, std::unique_ptr<Source> source)
    : identity_(std::move(identity)), source_(std::move(source)) {}

Credentials::~Credentials() = default;

std::shared_ptr<grpc::ChannelCredentials> Credentials::ForChannel(RoleSet peer) const {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(source_->provider);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      tls::ExternalCertificateVerifier::Create<PeerVerifier>(identity_.scope, peer));
  return tls::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> Credentials::ForServer() const {
  tls::TlsServerCredentialsOptions options(source_->provider);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  std::shared_ptr<grpc::ServerCredentials> credentials = tls::TlsServerCredentials(options);
  credentials->SetAuthMetadataProcessor(std::make_shared<MethodGuard>(identity_.scope));
  return credentials;
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsFor(const Credentials* credentials,
                                                                RoleSet peer) {
  return credentials == nullptr ? grpc::InsecureChannelCredentials()
                                : credentials->ForChannel(peer);
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsFor(const Credentials* credentials) {
  return credentials == nullptr ? grpc::InsecureServerCredentials() : credentials->ForServer();
}

absl::Status CheckPeerRole(const grpc::AuthContext& peer, RoleSet role) {
  if (!peer.IsPeerAuthenticated()) return absl::OkStatus();
  const CertificateIdentity identity = IdentityOfPeer(peer);
  if ((identity.roles & role) != 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(Describe(identity), " speaks for a ", RoleNames(role)));
}

absl::Status CheckListenAddress(absl::string_view address, bool insecure) {
  if (insecure || IsLoopbackAddress(address)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "address ", address, " can be reached by other machines and connections are not ",
      "encrypted; give --tls_cert, --tls_key and --tls_ca, or --insecure on a trusted network"));
}

}  // namespace shoal
