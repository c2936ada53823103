// Connects a worker's trainer with its chief: states of the run go to the trainer, its progress
// goes into the heartbeats.
#ifndef SHOAL_WORKER_STATE_FEED_H_
#define SHOAL_WORKER_STATE_FEED_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/exchange/remote_exchanges.h"
#include "runtime/rpc/chief_session.h"
#include "worker/trainer.h"

namespace shoal {

// Waits for the first state that says how the variables are divided, then passes states to a
// trainer. Thread-safe.
class StateFeed : public ChiefSession::Observer {
 public:
  // `abandon` (may be null) is called when the chief has fenced this worker, or is lost, and the
  // trainer is still attached 10 seconds later. The clock is borrowed.
  StateFeed(const Clock* clock, std::function<void(const absl::Status&)> abandon);

  void OnRunState(const v1::RunState& state) override;
  void OnFenced(const absl::Status& status) override { EndForGood(status); }
  void OnChiefLost(const absl::Status& status) override { EndForGood(status); }

  // Returns the first state with a plan, or the error because of which there will be none.
  absl::StatusOr<v1::RunState> WaitForPlan();

  // Passes the newest state and all later ones to the trainer; null detaches it.
  void Attach(Trainer* trainer);

  // Makes WaitForPlan and the trainer end with this error. Only the first call has an effect.
  void End(const absl::Status& status);
  // Returns the error given to End, or OK.
  absl::Status ended() const;

 private:
  void EndForGood(const absl::Status& status);
  // Gives the trainer a final state, PHASE_FAILED with the error, on which Trainer::Run returns.
  void EndTrainer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  const std::function<void(const absl::Status&)> abandon_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<v1::RunState> state_ ABSL_GUARDED_BY(mutex_);
  Trainer* trainer_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
};

// The places that receive a trainer's progress.
struct ProgressLinks {
  ChiefSession* session = nullptr;  // Borrowed; receives the progress five times per second.
  // Returns the state of the links to the ps, by index. May be null.
  std::function<std::vector<RemoteExchanges::Link>()> check_links;
  // Receives the progress whenever the session does. May be null.
  std::function<void(const Trainer::Progress&)> on_progress;
};

// Trains with a trainer for the run's mode, attached to the feed, until the run is over, then shuts
// the store down. Returns the error given to StateFeed::End, or else the trainer's status.
absl::Status TrainUntilOver(bool synchronous, const TrainerOptions& options,
                            const ProgressLinks& links, StateFeed* feed);

}  // namespace shoal

#endif  // SHOAL_WORKER_STATE_FEED_H_
