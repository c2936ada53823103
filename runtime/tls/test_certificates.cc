#include "runtime/tls/test_certificates.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace shoal {

TestCertificates::TestCertificates(const std::string& flags) {
  const char* place = std::getenv("TEST_TMPDIR");
  std::string pattern = std::string(place == nullptr ? "/tmp" : place) + "/certificates-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) std::abort();
  directory_ = pattern;
  const std::string command =
      "deploy/tls/make_certificates " + directory_ + " " + flags + " >/dev/null";
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "cannot make certificates: %s\n", command.c_str());
    std::abort();
  }
}

TestCertificates::~TestCertificates() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

TlsFiles TestCertificates::Of(const std::string& name) const {
  return {directory_ + "/" + name + ".crt", directory_ + "/" + name + ".key",
          directory_ + "/ca.crt"};
}

}  // namespace shoal
