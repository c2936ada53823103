#include "runtime/tls/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/file_system.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Names = std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)>;

absl::Status Bad(absl::string_view flag, const std::string& path, absl::string_view what) {
  ERR_clear_error();
  return absl::FailedPreconditionError(absl::StrCat(flag, ": ", path, " ", what));
}

absl::StatusOr<std::string> Read(absl::string_view flag, const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(*NewPosixFileSystem(), path);
  if (text.ok()) return text;
  return Bad(flag, path,
             absl::StrCat("cannot be read: ", text.status().message(),
                          "; name a PEM file that this user may read"));
}

Bio OpenText(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free);
}

absl::StatusOr<Certificate> ReadCertificate(absl::string_view flag, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, Read(flag, path));
  Certificate certificate(PEM_read_bio_X509(OpenText(text).get(), nullptr, nullptr, nullptr),
                          &X509_free);
  if (certificate != nullptr) return certificate;
  return Bad(flag, path,
             "is not a certificate; name a file that begins with -----BEGIN CERTIFICATE");
}

// No user is present to type a password.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return 0; }

absl::StatusOr<Key> ReadKey(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, Read("--tls_key", path));
  Key key(PEM_read_bio_PrivateKey(OpenText(text).get(), nullptr, &NoPassword, nullptr),
          &EVP_PKEY_free);
  if (key == nullptr) {
    return Bad("--tls_key", path, "is not a private key, or is encrypted; name a plain PEM key");
  }
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && (info.st_mode & S_IRWXO) != 0) {
    LOG(WARNING) << "--tls_key: every user of this machine may use " << path << "; chmod o= it";
  }
  return key;
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm utc = {};
  if (ASN1_TIME_to_tm(time, &utc) != 1) return absl::InfinitePast();
  return absl::FromTM(utc, absl::UTCTimeZone());
}

absl::Status CheckDates(const std::string& path, const X509* certificate, absl::Time now) {
  const absl::Time begin = ToTime(X509_get0_notBefore(certificate));
  const absl::Time end = ToTime(X509_get0_notAfter(certificate));
  if (now < begin) {
    return Bad("--tls_cert", path,
               absl::StrCat("is not valid before ", absl::FormatTime(begin, absl::UTCTimeZone()),
                            "; check this machine's clock"));
  }
  if (now >= end) {
    return Bad("--tls_cert", path,
               absl::StrCat("expired at ", absl::FormatTime(end, absl::UTCTimeZone()),
                            "; renew it, see docs/security.md"));
  }
  return absl::OkStatus();
}

std::vector<std::string> Uris(const X509* certificate) {
  const Names names(static_cast<GENERAL_NAMES*>(
                        X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
                    &GENERAL_NAMES_free);
  std::vector<std::string> uris;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

}  // namespace

absl::StatusOr<CertificateIdentity> CheckTlsFiles(const TlsFiles& files, absl::Time now) {
  ASSIGN_OR_RETURN(const Certificate own, ReadCertificate("--tls_cert", files.certificate));
  ASSIGN_OR_RETURN(const Key key, ReadKey(files.key));
  RETURN_IF_ERROR(ReadCertificate("--tls_ca", files.authorities).status());
  if (X509_check_private_key(own.get(), key.get()) != 1) {
    return Bad("--tls_key", files.key,
               absl::StrCat("is not the key of ", files.certificate, "; name the pair"));
  }
  RETURN_IF_ERROR(CheckDates(files.certificate, own.get(), now));
  CertificateIdentity identity = ParseIdentity(Uris(own.get()));
  if (identity.roles == 0) {
    return Bad("--tls_cert", files.certificate,
               "names no role; it needs a URI like spiffe://shoal/ps among its subject alternative "
               "names, see docs/security.md");
  }
  return identity;
}

}  // namespace shoal
