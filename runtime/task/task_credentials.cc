#include "runtime/task/task_credentials.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "base/status_macros.h"
#include "runtime/cluster/task.h"
#include "runtime/config/flags.h"
#include "runtime/config/rule.h"
#include "runtime/tls/credentials.h"

namespace shoal {
namespace {

// Returns the paths in the flags, with "{job}" replaced by `name`.
TlsFiles MakeFiles(const TaskFlags& flags, absl::string_view name) {
  const auto with_name = [name](const std::string& path) {
    return absl::StrReplaceAll(path, {{"{job}", name}});
  };
  return {with_name(flags.tls_cert), with_name(flags.tls_key), with_name(flags.tls_ca)};
}

RoleSet RoleOfJob(Job job) {
  switch (job) {
    case Job::kChief:
      return kRoleChief;
    case Job::kPs:
      return kRolePs;
    case Job::kWorker:
      return kRoleWorker;
    case Job::kEvaluator:
      return kRoleEvaluator;
  }
  return 0;
}

}  // namespace

absl::Status CheckTlsFlags(const TaskFlags& flags) {
  const std::pair<const char*, const std::string*> files[] = {
      {"--tls_cert", &flags.tls_cert}, {"--tls_key", &flags.tls_key}, {"--tls_ca", &flags.tls_ca}};
  const char* given = nullptr;
  const char* missing = nullptr;
  for (const auto& [name, path] : files) (path->empty() ? missing : given) = name;
  if (given == nullptr) return absl::OkStatus();
  if (missing != nullptr) {
    return InvalidField(missing,
                        absl::StrCat("is missing, but ", given,
                                     " is given; mutual TLS needs --tls_cert, --tls_key and "
                                     "--tls_ca"));
  }
  if (flags.insecure) {
    return InvalidField("--insecure", "contradicts --tls_cert; drop one of them");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Credentials>> ReadOperatorCredentials(const TaskFlags& flags,
                                                                     absl::Time now) {
  RETURN_IF_ERROR(CheckTlsFlags(flags));
  if (flags.tls_cert.empty()) return nullptr;
  return Credentials::Create(MakeFiles(flags, "operator"), now);
}

absl::StatusOr<std::unique_ptr<Credentials>> ReadTaskCredentials(const TaskFlags& flags,
                                                                 const TaskId& task,
                                                                 bool hosts_chief, absl::Time now) {
  RETURN_IF_ERROR(CheckTlsFlags(flags));
  if (flags.tls_cert.empty()) return nullptr;
  const TlsFiles files = MakeFiles(flags, hosts_chief ? "worker_chief" : JobName(task.job));
  ASSIGN_OR_RETURN(std::unique_ptr<Credentials> credentials, Credentials::Create(files, now));
  const RoleSet has = credentials->identity().roles;
  const RoleSet wanted = RoleOfJob(task.job) | (hosts_chief ? kRoleChief : 0);
  if ((has & wanted) == wanted) return credentials;
  return absl::FailedPreconditionError(
      absl::StrCat("--tls_cert: ", files.certificate, " has the role ", RoleNames(has), ", but ",
                   task.ToString(), hosts_chief ? ", which hosts the chief," : "", " needs ",
                   RoleNames(wanted), "; name such a certificate, see docs/security.md"));
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
