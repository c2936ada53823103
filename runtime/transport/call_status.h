// Decides what the status of a call means: this is the one place for all calls between tasks.
//
// A status that is not OK comes from one of two sources. The service of the task that was called
// has judged the call; or something in between has failed: gRPC's runtime on either side, a proxy,
// a quota, a thread pool, certificates that are being exchanged. What lies in between knows nothing
// of the run, so that its word must never end a task, drop data or fence anybody. Servers therefore
// mark the errors of their services (AnswerOf), and clients turn every error without the mark into
// UNAVAILABLE (StatusOfCall). Shared memory and calls inside a process have nothing in between.
//
// So everything above sees one of these:
//
//     IsOutcomeUnknown(status)  nobody knows whether the receiver saw the call: repeat it, with the
//                               same ids, until the deadline that docs/failure_model.md gives
//     ABORTED                   the service knows a newer lineage, incarnation or term
//     MayHeal(status)           the service has failed at it now, and another try may succeed
//     any other                 the service refuses it for good
#ifndef SHOAL_RUNTIME_TRANSPORT_CALL_STATUS_H_
#define SHOAL_RUNTIME_TRANSPORT_CALL_STATUS_H_

#include "absl/status/status.h"

namespace grpc {
class ClientContext;
class ServerContextBase;
class Status;
}  // namespace grpc

namespace shoal {

// UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED. Never read as "not done".
bool IsOutcomeUnknown(const absl::Status& status);

// A message above the limit of one side. No repetition changes that.
bool IsTooLarge(const absl::Status& status);

// For an error of the service itself, or of this side: whether another try may succeed. The
// receiver lacks memory or room, or its file system fails. True for unknown outcomes and ABORTED.
bool MayHeal(const absl::Status& status);

// Of a server: marks and converts what its service answers.
grpc::Status AnswerOf(grpc::ServerContextBase* context, const absl::Status& status);

// Of a client: the status of a call that has ended. UNAVAILABLE with the original code and text:
// the peer's service did not answer. Only a message that is too large keeps its code without the
// mark.
absl::Status StatusOfCall(const grpc::ClientContext& context, const grpc::Status& status);

// The code that something in between has given, of a status that StatusOfCall has made; OK if it
// is none.
absl::StatusCode CodeFromBetween(const absl::Status& status);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_CALL_STATUS_H_
