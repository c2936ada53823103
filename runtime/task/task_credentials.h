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

// INVALID_ARGUMENT: some of --tls_cert, --tls_key and --tls_ca without the others, or together with
// --insecure.
absl::Status CheckTlsFlags(const TaskFlags& flags);

// Null where no certificate is given: plaintext. For commands that only ask: "{job}" in the paths
// stands for "operator", and any role will do. Errors: see CheckTlsFlags and CheckTlsFiles.
absl::StatusOr<std::unique_ptr<Credentials>> ReadOperatorCredentials(const TaskFlags& flags,
                                                                     absl::Time now);

// The same for a task: "{job}" stands for its job, or for "worker_chief" if it hosts the chief.
// FAILED_PRECONDITION also: the certificate lacks a role that the task serves as, so that every
// peer would take it for absent.
absl::StatusOr<std::unique_ptr<Credentials>> ReadTaskCredentials(const TaskFlags& flags,
                                                                 const TaskId& task,
                                                                 bool hosts_chief, absl::Time now);

// Returns whether other machines may reach --metrics_address: with --insecure, or with
// certificates, which say that the operator has thought of who connects. The pages hold no secret.
bool MayShowPages(const TaskFlags& flags);

// The flags again, for tasks that a launcher starts with the same ones; paths made absolute.
std::vector<std::string> SecurityFlags(const TaskFlags& flags,
                                       const std::string& working_directory);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_TASK_CREDENTIALS_H_
