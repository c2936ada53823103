// The error of a batch whose computation crashed in another process than the worker.
#ifndef SHOAL_WORKER_REPLICA_BATCH_CRASH_H_
#define SHOAL_WORKER_REPLICA_BATCH_CRASH_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Returns an Internal error with a mark for IsBatchCrash.
absl::Status BatchCrash(absl::string_view message);

// Returns whether ReplicaProgram::Train failed because the computation died of SIGSEGV, SIGBUS,
// SIGFPE, SIGILL or SIGABRT, so that the batch is suspect.
bool IsBatchCrash(const absl::Status& status);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_BATCH_CRASH_H_
