#include "runtime/rpc/refused_connection.h"

#include "absl/strings/match.h"

namespace shoal {

RefusedConnection FindRefusal(const absl::Status& status, bool secure) {
  if (!absl::IsUnavailable(status)) return {};
  const absl::string_view text = status.message();
  if (secure && absl::StrContains(text, "certificate verify failed")) {
    return {
        "the certificate there is not trusted: it is of an authority that --tls_ca does not name, "
        "or it has expired; give both sides certificates of one authority",
        true};
  }
  if (secure && absl::StrContains(text, "wrong version number")) {
    return {
        "what listens there speaks no TLS; drop --tls_cert, --tls_key and --tls_ca, or start it "
        "with them",
        true};
  }
  const size_t wanted = text.find("wanted spiffe://");
  if (secure && wanted != absl::string_view::npos) {
    return {"another task listens there: " + std::string(text.substr(wanted)), true};
  }
  // A handshake that the other side has ended, or a plaintext preface that it did not like; not a
  // call that broke.
  if (absl::StrContains(text, "failed to connect") &&
      (absl::StrContains(text, "Socket closed") || absl::StrContains(text, "Connection reset"))) {
    return {secure ? "it closes the connection: it may not trust this side's --tls_cert (another "
                     "authority, expired), its log says so then"
                   : "it closes the connection: if the run uses TLS, give --tls_ca, --tls_cert and "
                     "--tls_key",
            false};
  }
  return {};
}

}  // namespace shoal
