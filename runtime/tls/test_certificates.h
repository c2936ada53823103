// (testonly) Certificates made by deploy/tls/make_certificates for one test.
#ifndef SHOAL_RUNTIME_TLS_TEST_CERTIFICATES_H_
#define SHOAL_RUNTIME_TLS_TEST_CERTIFICATES_H_

#include <string>

#include "runtime/tls/tls_files.h"

namespace shoal {

// The certificates are in a directory of their own, which the destructor removes. Aborts the test
// if they cannot be made.
class TestCertificates {
 public:
  // `flags` are flags of the tool, e.g. "--days=-1".
  explicit TestCertificates(const std::string& flags = "");
  ~TestCertificates();
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;

  const std::string& directory() const { return directory_; }
  // Returns the files of "ps", "all", ...
  TlsFiles Of(const std::string& name) const;

 private:
  std::string directory_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TLS_TEST_CERTIFICATES_H_
