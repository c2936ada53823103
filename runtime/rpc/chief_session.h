// A task's session with the chief: registers the task, renews its lease, and receives the run's
// state.
#ifndef SHOAL_RUNTIME_RPC_CHIEF_SESSION_H_
#define SHOAL_RUNTIME_RPC_CHIEF_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "runtime/cluster/task.h"
#include "runtime/plan/batch_key.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/rpc/retry.h"

namespace shoal {
namespace v1 {
class HeartbeatRequest;
class Identity;
class ModelDeclaration;
class RunConfig;
class RunState;
}  // namespace v1

// Thread-safe. Call Register, then Start, then Stop.
class ChiefSession {
 public:
  // Receives events, one call at a time, on the session's thread. It may call all functions of the
  // session except Stop.
  class Observer {
   public:
    virtual ~Observer() = default;
    // A state of the run has arrived. `number` rises from call to call.
    virtual void OnRunState(const v1::RunState& state) = 0;
    // The chief refuses this task for ever: ABORTED if the task was replaced (exit 138),
    // FAILED_PRECONDITION if it has another run or model, or sends messages that do not fit. The
    // session's thread ends after this call.
    virtual void OnFenced(const absl::Status& status) = 0;
    // The chief has not answered for `chief_lost_after`; `status` is that of the last attempt. The
    // session's thread ends after this call.
    virtual void OnChiefLost(const absl::Status& status) = 0;
  };

  // The reason of the task's end in its last heartbeat.
  enum class Departure {
    kNone,
    kLeaves,        // The task leaves; the chief need not wait for its lease to expire.
    kAskedToLeave,  // The same, after a termination signal: the task does not count as lost.
  };

  struct Options {
    TaskId task = {Job::kWorker, 0};
    std::string address;  // The address at which the task serves; empty for workers.
    std::string host;
    uint32_t process_id = 0;
    // The part of the run that all tasks share (SharedByAllTasks); null if this task does not know
    // it.
    std::shared_ptr<const v1::RunConfig> shared_run;
    // The run directory in the task's flags; empty if not given.
    std::string run_directory;
    // The numbers of tasks in the task's flags; 0 if not given.
    uint32_t num_ps_tasks = 0;
    uint32_t num_replicas = 0;
    std::string nonce;  // A random text that identifies the process.
    // The address behind the client, for log lines and errors; empty if the chief is in this
    // process.
    std::string chief_address;
    absl::Duration register_patience;  // cluster.wait_seconds
    bool secure = false;               // true if the client has certificates
    // Called while the chief does not answer; returns whether the run is known to be over. May be
    // null.
    std::function<bool()> is_over;
    // Adds to every heartbeat what only this kind of task reports. May be null; it must not wait.
    std::function<void(v1::HeartbeatRequest* request)> add_to_heartbeat;
    // The longest time that the peers' certificates may be refused before this is an error: they
    // may be about to be renewed.
    absl::Duration refused_patience = absl::Seconds(12);
    absl::Duration heartbeat_wait = absl::Seconds(1);
    // The chief's lease (cluster.lease_seconds). A ps that cannot renew it for four fifths of its
    // length must stop serving: see is_lease_valid. A worker may continue: its contributions are
    // identified by their batch and count once even if another worker computes them too.
    absl::Duration lease;
    // Register repeats its call for this time beyond the lease after ALREADY_EXISTS: the process
    // that had this place may have died a moment ago, and then its lease has not expired yet.
    absl::Duration duplicate_patience = absl::Seconds(2);
    // The chief counts as lost if it has not answered for this time, or for the lease if that is
    // longer. The time is long so that a chief that is suspended for a while, for example with its
    // machine, is not given up. Time in which this task itself was suspended does not count.
    absl::Duration chief_lost_after = absl::Seconds(60);
  };

  // The task's report about itself in every heartbeat.
  struct Activity {
    uint64_t step = 0;
    std::string words;
    std::optional<BatchKey> batch;  // The batch that is being computed.
    // Workers: a batch or an evaluation block is being computed.
    bool computing = false;
    // Workers: the number of batches and blocks that have been computed, and of reports of progress
    // of a program that computes a long one.
    uint64_t computed = 0;
    // Workers: the ps that do not answer.
    std::vector<uint32_t> silent_ps;
    // Workers: all ps have answered.
    bool reaches_all_ps = false;
  };

  // All must outlive the session.
  ChiefSession(ChiefClient* client, const Clock* clock, Options options, Observer* observer);
  // The same as Stop.
  ~ChiefSession();
  ChiefSession(const ChiefSession&) = delete;
  ChiefSession& operator=(const ChiefSession&) = delete;

  // Asks like Register, but the chief only checks the worker's model, which becomes the run's if it
  // is the first, and gives the worker no place. Optional, before Register.
  absl::Status Check(const v1::ModelDeclaration& model);

  // Blocks until the chief has answered; waits for a chief that has not started yet, and logs every
  // few seconds what it waits for. `model` is the worker's, null for a ps. Returns the chief's
  // errors (see RegisterTask), OUT_OF_RANGE once is_over returns true, DEADLINE_EXCEEDED or
  // UNAVAILABLE when register_patience ends, FAILED_PRECONDITION if the listener at the address is
  // not a chief that accepts this side's certificates or the model does not fit a message, and
  // CANCELLED after Stop or StopRegistering.
  absl::Status Register(const v1::ModelDeclaration* model);

  // Ends Register as soon as the call under way returns; closing the client ends that call. Has no
  // effect after Register has returned.
  void StopRegistering();

  void Start();

  // Waits for the heartbeat under way, up to `heartbeat_wait` (less if the client was closed
  // before), and sends a last heartbeat with the departure and the error, if any, with which the
  // task ends. Idempotent.
  void Stop(Departure departure = Departure::kNone, const std::string& error = "");

  void SetActivity(Activity activity);

  // Returns run_id, term, member and incarnation of the registration, and view and lineage of the
  // newest state.
  v1::Identity identity() const;

  // Returns false if the chief may have given this task's place to another process.
  bool is_lease_valid() const;

 private:
  enum class Beat { kGood, kRetry, kEnd };

  absl::Status RegisterOnce(const v1::ModelDeclaration* model, bool only_check = false);
  // Returns the error of a chief that has not answered during `register_patience`.
  absl::Status NoAnswer(const absl::Status& last) const;
  void Run();
  Beat BeatOnce();
  void NoticePause();  // A pause of this task.
  absl::Status SendHeartbeat(Departure departure, const std::string& error, absl::Duration wait);
  void Take(const v1::RunState& state);
  bool SleepUnlessStopped(absl::Duration wait);
  void LogWaiting(const absl::Status& status);
  // Returns the error of a call while registering; FAILED_PRECONDITION if certificates were refused
  // for refused_patience.
  absl::Status Judge(const absl::Status& answer);

  ChiefClient* const client_;
  const Clock* const clock_;
  const Options options_;
  Observer* const observer_;
  Retry retry_;
  Backoff backoff_;       // used by the thread
  bool is_over_ = false;  // the run's end, as last received; used by the thread
  // When the thread last read the clock.
  absl::Time last_look_ = absl::InfiniteFuture();
  // When the thread last noticed that the task had been paused.
  absl::Time resumed_ = absl::InfinitePast();
  std::thread thread_;
  absl::Time next_waiting_log_ = absl::InfinitePast();  // used by Register
  absl::Time refused_since_ = absl::InfiniteFuture();   // used by Register

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<v1::Identity> identity_ ABSL_GUARDED_BY(mutex_);
  Activity activity_ ABSL_GUARDED_BY(mutex_);
  uint64_t known_state_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time renewed_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CHIEF_SESSION_H_
