// Decides what the status of a call means, for all calls between tasks.
//
// A status that is not OK has one of two sources: the service of the called task, or something in
// between (gRPC's runtime on either side, a proxy, a quota, a thread pool, certificates that are
// being replaced). Whatever is in between knows nothing about the run, so its errors must never end
// a task, drop data or fence a task. Servers therefore mark the errors of their services
// (MarkAnswer), and clients turn every error without the mark into UNAVAILABLE (StatusOfCall).
// Shared memory and calls inside a process have nothing in between.
//
// So callers see one of these:
//
//     IsOutcomeUnknown(status)  it is unknown whether the receiver executed the call: repeat it
//                               with the same ids until the deadline in docs/failure_model.md
//     ABORTED                   the service knows a newer lineage, incarnation or term
//     MayHeal(status)           the service failed this time; another attempt may succeed
//     any other                 the service refuses the call, and repeating it is useless
#ifndef SHOAL_RUNTIME_TRANSPORT_CALL_STATUS_H_
#define SHOAL_RUNTIME_TRANSPORT_CALL_STATUS_H_

#include "absl/status/status.h"

namespace grpc {
class ClientContext;
class ServerContextBase;
class Status;
}  // namespace grpc

namespace shoal {

// True for UNAVAILABLE, DEADLINE_EXCEEDED and CANCELLED. The receiver may have executed the call.
bool IsOutcomeUnknown(const absl::Status& status);

// Returns whether the message exceeded the limit of one side, so that repeating the call is
// useless.
bool IsTooLarge(const absl::Status& status);

// Returns whether another attempt may succeed after an error of the service or of this side: the
// receiver lacks memory or room, or its file system fails. Also true for unknown outcomes and
// ABORTED.
bool MayHeal(const absl::Status& status);

// For servers: marks and converts the status of the service. `context` is null for a caller in the
// same process, which gets the status as it is.
grpc::Status MarkAnswer(grpc::ServerContextBase* context, const absl::Status& status);

// For clients: returns the status of a call that has ended. An error without the mark becomes
// UNAVAILABLE with the original code and text, because the peer's service did not answer. Only the
// error of a message that is too large keeps its code without the mark.
absl::Status StatusOfCall(const grpc::ClientContext& context, const grpc::Status& status);

// For clients: returns whether the service itself has answered a call that has ended.
bool IsAnswered(const grpc::ClientContext& context, const grpc::Status& status);

// The same two decisions about a status whose mark is known; all transports use them.
absl::Status StatusOfAnswer(const absl::Status& answer, bool has_mark);
bool IsAnsweredByService(const absl::Status& answer, bool has_mark);

// Returns the original code of an error from in between, given a status that StatusOfCall has made;
// OK if the status is no such error.
absl::StatusCode CodeFromBetween(const absl::Status& status);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_CALL_STATUS_H_
