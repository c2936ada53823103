// The files with a task's certificate, its key and the authorities that it trusts.
#ifndef SHOAL_RUNTIME_TLS_TLS_FILES_H_
#define SHOAL_RUNTIME_TLS_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "runtime/tls/certificate_role.h"

namespace shoal {

// Paths of PEM files.
struct TlsFiles {
  std::string certificate;  // The task's certificate, then the chain up to the authority's.
  std::string key;          // The key of the first certificate; not encrypted.
  std::string authorities;
};

// Reads the three files and returns the identity in the certificate. FAILED_PRECONDITION names the
// flag and the file that cannot be read, is not PEM, does not match the key, is not valid now, or
// names no role.
absl::StatusOr<CertificateIdentity> CheckTlsFiles(const TlsFiles& files, absl::Time now);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TLS_TLS_FILES_H_
