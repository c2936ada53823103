#ifndef SHOAL_CHIEF_SESSION_ADMISSION_H_
#define SHOAL_CHIEF_SESSION_ADMISSION_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "chief/ledgers/issued_incarnations.h"
#include "chief/session/roster.h"
#include "chief/session/session_context.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/identity.pb.h"
#include "runtime/cluster/task.h"

namespace shoal {

// Decides which tasks may take part in the run, and whether a call comes from one of them. The
// first worker's model decides the plan of the run. Not thread-safe.
class Admission {
 public:
  // Both are borrowed.
  Admission(SessionContext* context, Roster* roster) : context_(*context), roster_(*roster) {}

  // Returns why the task cannot register, whatever its model is: it belongs to another run, or its
  // program, its number or its run file does not fit. OK: it may.
  absl::Status Check(const v1::RegisterTaskRequest& request) const;
  // Compares the worker's model with that of the run, or plans the run with it if there is no plan
  // yet. A worker that does not fit the checkpoint is refused; when no worker fits, the run fails.
  absl::Status CheckModelOrPlan(const v1::RegisterTaskRequest& request);

  struct Place {
    uint64_t incarnation = 0;
    bool is_new = false;  // False: the same process has asked again.
  };
  // Gives the task its place. ALREADY_EXISTS: another process holds it.
  absl::StatusOr<Place> TakePlace(absl::Time now, const v1::RegisterTaskRequest& request);
  // Sets the fingerprint of the run's initial values, which are those of the first worker that
  // takes a place. Records the first time that a worker gives others, unless the run begins with a
  // checkpoint or another model.
  void TakeInitialValues(uint32_t worker, uint64_t values);

  // Checks the sender of a call and renews its lease. Errors are those of chief_service.proto.
  absl::Status CheckIdentity(absl::Time now, const v1::Identity& identity);
  // Checks a call about the current lineage that only tasks of `job` send. A sender of another job
  // gets INVALID_ARGUMENT, and its lease is not renewed: the task may be dead and its name forged.
  absl::Status CheckReport(absl::Time now, const v1::Identity& identity, Job job);
  // Checks that a call without a place, such as a launcher's, belongs to this run.
  absl::Status CheckRun(const v1::Identity& identity) const;

  IssuedIncarnations& issued() { return issued_; }
  // Returns why a worker was refused, if none has been accepted since.
  const std::string& last_refusal() const { return last_refusal_; }

 private:
  // Answers a sender that claims a later term than this chief's. Only the run's directory proves
  // such a claim.
  absl::Status DoubtTerm(absl::Time now, uint64_t claimed);
  // Checks that the worker computes with the same devices and libraries as the first one. ABORTED,
  // which ends only its process: an earlier process of the worker did, and the run has trained, or
  // it may have done so in a run that is resumed and whose GPUs it lacks. FAILED_PRECONDITION
  // otherwise. In ASYNC a difference is only logged, once.
  absl::Status CheckComputation(TaskId worker, const std::string& theirs);
  absl::Status RefuseWorker(uint32_t index, const absl::Status& why);
  absl::Status CheckRunIsAlive() const;
  void WarnOfAnotherDirectory(TaskId task, const std::string& directory);

  SessionContext& context_;
  Roster& roster_;
  IssuedIncarnations issued_;
  std::set<uint32_t> refused_workers_;
  std::set<uint32_t> differing_workers_;       // Those that gave other initial values.
  std::set<uint32_t> differing_computations_;  // The workers whose difference is logged.
  std::string last_refusal_;
  absl::Time term_doubted_ = absl::InfinitePast();
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_ADMISSION_H_
