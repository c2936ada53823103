// Mutual TLS from the flags of a task or of a command that dials one.
#ifndef SHOAL_RUNTIME_TASK_TASK_CREDENTIALS_H_
#define SHOAL_RUNTIME_TASK_TASK_CREDENTIALS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace shoal {

class Credentials;
struct TaskFlags;
struct TaskId;

// Returns INVALID_ARGUMENT if only some of --tls_cert, --tls_key and --tls_ca are given, or if they
// are given together with --insecure.
absl::Status CheckTlsFlags(const TaskFlags& flags);

// Reads the credentials of an operator's command; null (plaintext) if no certificate is given.
// "{job}" in the paths stands for "operator", and a certificate with any role is accepted. For
// errors see CheckTlsFlags and CheckTlsFiles.
absl::StatusOr<std::unique_ptr<Credentials>> ReadOperatorCredentials(const TaskFlags& flags,
                                                                     absl::Time now);

// The same for a task: "{job}" stands for its job, or for "worker_chief" if it hosts the chief.
// Returns FAILED_PRECONDITION also if the certificate lacks a role of the task, because every peer
// would refuse the task then.
absl::StatusOr<std::unique_ptr<Credentials>> ReadTaskCredentials(const TaskFlags& flags,
                                                                 const TaskId& task,
                                                                 bool hosts_chief, absl::Time now);

// Returns whether other machines may reach --metrics_address: with --insecure, or with
// certificates, which show that the operator has considered who connects. The pages contain no
// secrets.
bool MayShowPages(const TaskFlags& flags);

// Returns the flags, with absolute paths, for the tasks that a launcher starts.
std::vector<std::string> SecurityFlags(const TaskFlags& flags,
                                       const std::string& working_directory);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_TASK_CREDENTIALS_H_
