// A task's side of membership: registers with the chief, keeps the lease, follows the run's state.
#ifndef SHOAL_RUNTIME_RPC_CHIEF_SESSION_H_
#define SHOAL_RUNTIME_RPC_CHIEF_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "runtime/plan/batch_key.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/rpc/retry.h"

namespace shoal {
namespace v1 {
class Identity;
class ModelDeclaration;
class RunConfig;
class RunState;
}  // namespace v1

// Thread-safe. Life: Register, Start, Stop.
class ChiefSession {
 public:
  // Told on the session's thread, one call at a time. May call everything of the session but Stop.
  class Observer {
   public:
    virtual ~Observer() = default;
    // Every state that arrives; `number` rises.
    virtual void OnRunState(const v1::RunState& state) = 0;
    // The chief refuses this task for good: ABORTED, it was replaced (exit 138);
    // FAILED_PRECONDITION, another run or model, or messages that do not fit. The session's thread
    // has ended.
    virtual void OnFenced(const absl::Status& status) = 0;
    // No answer for `chief_lost_after`; `status` is the last one. The session's thread has ended.
    virtual void OnChiefLost(const absl::Status& status) = 0;
  };

  enum class Job { kPs, kWorker };

  // What the chief hears of an end.
  enum class Farewell {
    kNone,
    kLeaves,     // Nobody needs to wait for the lease to end.
    kWasToldTo,  // And a signal told it to go: the task is not lost.
  };

  struct Options {
    Job job = Job::kWorker;
    uint32_t index = 0;
    std::string address;  // Where the task serves; empty for workers.
    std::string host;
    uint32_t process_id = 0;
    std::shared_ptr<const v1::RunConfig> shared_run;  // SharedByAllTasks; null: none is told.
    std::string run_directory;                        // As the task was told, else empty.
    uint32_t num_ps_tasks = 0;                        // As far as the task was told, else 0.
    uint32_t num_replicas = 0;
    std::string nonce;          // Random per process.
    std::string chief_address;  // What the client dials, for messages; empty: this process.
    absl::Duration register_patience = absl::Seconds(300);
    bool secure = false;  // The client has certificates.
    // Asked while the chief does not answer: the run is known to be over. May be null.
    std::function<bool()> is_over;
    // How long certificates of the two sides may not go together: they may be about to be renewed.
    absl::Duration refused_patience = absl::Seconds(12);
    absl::Duration heartbeat_wait = absl::Seconds(1);
    // The chief's lease (cluster.lease_seconds). A ps that cannot renew for four fifths of it must
    // stop serving: see is_lease_valid. A worker may go on: what it pushes is known by its batch,
    // and counts once whoever else computes it.
    absl::Duration lease = absl::Seconds(10);
    // How much longer than the lease ALREADY_EXISTS is asked again: whoever held this place may
    // have died a moment ago, and its lease has not ended yet.
    absl::Duration duplicate_patience = absl::Seconds(2);
    // Or the lease, if that is longer. A chief that stands still for a while, as in a machine that
    // is being moved, is worth waiting for. What this task itself stood still does not count.
    absl::Duration chief_lost_after = absl::Seconds(60);
  };

  // What a task tells about itself with every heartbeat.
  struct Activity {
    uint64_t step = 0;
    std::string words;
    bool has_batch = false;
    BatchKey batch;
    bool computing = false;  // Workers: a batch or an evaluation block is being computed now,
    uint64_t computed = 0;   // and so many have been before.
    std::vector<uint32_t> silent_ps;  // Workers: ps that do not answer,
    bool reaches_all_ps = false;      // and whether all ps have answered.
  };

  // All must outlive the session.
  ChiefSession(ChiefClient* client, const Clock* clock, Options options, Observer* observer);
  // The same as Stop.
  ~ChiefSession();
  ChiefSession(const ChiefSession&) = delete;
  ChiefSession& operator=(const ChiefSession&) = delete;

  // Blocks until the chief has answered; waits for a chief that is not there yet. `model`: workers
  // only, else null. Says every few seconds what it waits for. The chief's errors (see
  // RegisterTask), OUT_OF_RANGE once is_over says so, DEADLINE_EXCEEDED or UNAVAILABLE when
  // patience ends, FAILED_PRECONDITION where something listens that is no chief for this side's
  // certificates or the model does not fit a message, CANCELLED after Stop or StopRegistering.
  absl::Status Register(const v1::ModelDeclaration* model);

  // Ends Register as soon as the call under way returns (closing the client ends that); nothing
  // happens once it is through.
  void StopRegistering();

  void Start();

  // Waits for the heartbeat under way, up to `heartbeat_wait`; closing the client first is faster.
  // Sends a last heartbeat with the farewell. Idempotent.
  void Stop(Farewell farewell = Farewell::kNone);

  void SetActivity(Activity activity);

  // run_id, term, member, incarnation of the registration; view and lineage of the newest state.
  v1::Identity identity() const;

  // False: the chief may have given this task's place to another one.
  bool is_lease_valid() const;

 private:
  enum class Beat { kGood, kRetry, kEnd };

  absl::Status RegisterOnce(const v1::ModelDeclaration* model);
  // The error of a chief that has not answered for the whole of `register_patience`.
  absl::Status NoAnswer(const absl::Status& last) const;
  void Run();
  Beat BeatOnce();
  void NoticePause();  // Of this task.
  absl::Status SendHeartbeat(Farewell farewell, absl::Duration wait);
  void Take(const v1::RunState& state);
  bool SleepUnlessStopped(absl::Duration wait);
  void SayWaiting(const absl::Status& status);
  // What a call's error while registering comes to: FAILED_PRECONDITION after refused_patience.
  absl::Status Judge(const absl::Status& answer);

  ChiefClient* const client_;
  const Clock* const clock_;
  const Options options_;
  Observer* const observer_;
  Retry retry_;
  Backoff backoff_;                                // Of the thread.
  bool is_over_ = false;                           // the run, as last heard; of the thread
  absl::Time last_look_ = absl::InfiniteFuture();  // of the thread, at the clock,
  absl::Time resumed_ = absl::InfinitePast();      // and the last one long after the one before.
  std::thread thread_;
  absl::Time say_waiting_ = absl::InfinitePast();      // of Register
  absl::Time refused_since_ = absl::InfiniteFuture();  // of Register

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
