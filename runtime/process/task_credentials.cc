#include "runtime/process/task_credentials.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "base/status_macros.h"
#include "runtime/config/flags.h"
#include "runtime/config/rule.h"
#include "runtime/rpc/credentials.h"

namespace shoal {

absl::Status CheckTlsFlags(const TaskFlags& flags) {
  const std::pair<const char*, const std::string*> files[] = {
      {"--tls_cert", &flags.tls_cert}, {"--tls_key", &flags.tls_key}, {"--tls_ca", &flags.tls_ca}};
  const char* given = nullptr;
  const char* missing = nullptr;
  for (const auto& [name, path] : files) (path->empty() ? missing : given) = name;
  if (given == nullptr) return absl::OkStatus();
  if (missing != nullptr) {
    return Broken(missing, absl::StrCat("is missing, but ", given,
                                        " is given; mutual TLS needs --tls_cert, --tls_key and "
                                        "--tls_ca"));
  }
  if (flags.insecure) {
    return Broken("--insecure", "contradicts --tls_cert; drop one of them");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Credentials>> ReadCredentials(const TaskFlags& flags,
                                                             absl::string_view job,
                                                             absl::Time now) {
  RETURN_IF_ERROR(CheckTlsFlags(flags));
  if (flags.tls_cert.empty()) return nullptr;
  const auto of_job = [job](const std::string& path) {
    return absl::StrReplaceAll(path, {{"{job}", job}});
  };
  return Credentials::Create({of_job(flags.tls_cert), of_job(flags.tls_key), of_job(flags.tls_ca)},
                             now);
}

bool MayShowPages(const TaskFlags& flags) { return flags.insecure || !flags.tls_cert.empty(); }

std::vector<std::string> SecurityFlags(const TaskFlags& flags,
                                       const std::string& working_directory) {
  std::vector<std::string> args;
  if (flags.insecure) args.push_back("--insecure");
  const std::pair<const char*, const std::string*> files[] = {
      {"--tls_cert", &flags.tls_cert}, {"--tls_key", &flags.tls_key}, {"--tls_ca", &flags.tls_ca}};
  for (const auto& [name, path] : files) {
    if (path->empty()) continue;
    args.push_back(
        absl::StrCat(name, "=", path->front() == '/' ? "" : working_directory + "/", *path));
  }
  return args;
}

}  // namespace shoal
