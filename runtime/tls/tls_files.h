// A task's certificate, its key and the authorities it trusts, as files.
#ifndef SHOAL_RUNTIME_TLS_TLS_FILES_H_
#define SHOAL_RUNTIME_TLS_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "runtime/tls/certificate_role.h"

namespace shoal {

// Paths of PEM files.
struct TlsFiles {
  std::string certificate;  // The task's own, then those that lead to the authority's.
  std::string key;          // Of the first certificate; not encrypted.
  std::string authorities;
};

// Reads the three and returns who the certificate says this task is. FAILED_PRECONDITION, naming
// the flag and the file: it cannot be read, is no PEM, is of another key, not valid yet or not any
// more, or names no role.
absl::StatusOr<CertificateIdentity> CheckTlsFiles(const TlsFiles& files, absl::Time now);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TLS_TLS_FILES_H_
