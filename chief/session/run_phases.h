#ifndef SHOAL_CHIEF_SESSION_RUN_PHASES_H_
#define SHOAL_CHIEF_SESSION_RUN_PHASES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "chief/session/session_log.h"
#include "chief/session/training_mode.h"
#include "proto/v1/chief_service.pb.h"

namespace shoal {

// Keeps the phase and the lineage of a run, and the RunState from which all tasks learn them.
// training_session.h shows the phases. Not thread-safe.
class RunPhases {
 public:
  // `log` is borrowed. The run begins in PHASE_WAITING.
  RunPhases(uint64_t term, uint64_t lineage, bool synchronous, SessionLog* log);

  // Sets the mode, which is borrowed until the next call. Call it before any other function.
  void SetMode(TrainingMode* mode) { mode_ = mode; }

  const v1::RunState& state() const { return state_; }
  // Call Changed after a change, so that the tasks receive it.
  v1::RunState* mutable_state() { return &state_; }
  void Changed() { state_.set_number(state_.number() + 1); }
  // Starts a new view. Workers that know it push to the ps that have come back.
  void NextView();

  v1::RunState::Phase phase() const { return state_.phase(); }
  uint64_t lineage() const { return state_.lineage(); }
  bool is_over() const;     // PHASE_DONE or PHASE_FAILED.
  bool is_running() const;  // PHASE_TRAINING or PHASE_STOPPING.
  // The run makes a checkpoint and ends: a user has asked for that, or EndWith was called. It has
  // not reached its end by itself.
  bool is_interrupted() const { return is_asked_to_stop_ || !ends_with_.ok(); }
  // No step will be completed any more.
  bool steps_have_ended() const { return steps_have_ended_; }

  void Set(v1::RunState::Phase phase);
  void Interrupt(const std::string& reason);
  void EndSteps() { steps_have_ended_ = true; }
  // Interrupts the run because of an error, which becomes its failure in Finish. Does nothing in a
  // run that is over or that already ends with an error. With `unless_trained` the error is
  // forgotten if all steps are applied before the run ends.
  void EndWith(const std::string& message, absl::StatusCode code, bool unless_trained = false);
  // All steps are applied, and the final checkpoint is being written.
  void OnTrained();
  // Ends the run. `at_end`: it was trained to its end, whether a user asked for a stop or not.
  // Otherwise `checkpoint` says which one is its last; it is added to the message of an error.
  void Finish(bool at_end, const std::string& checkpoint);
  // Starts a new lineage, in which all ps go back to a checkpoint.
  void GoBack();
  // Ends the run with an error at once; the error of EndWith has precedence. Does nothing in a run
  // that is over.
  void Fail(const std::string& message,
            absl::StatusCode code = absl::StatusCode::kFailedPrecondition);
  // Ends this chief because another one has taken the run over. It must not write anything more.
  void Fence(const std::string& why);
  // Returns the error with which the chief's process ends. Tasks read theirs from the state.
  absl::Status failure() const;

 private:
  void SetFailed(const std::string& message, absl::StatusCode code);

  const uint64_t term_;
  SessionLog* const log_;
  TrainingMode* mode_ = nullptr;
  v1::RunState state_;
  bool is_asked_to_stop_ = false;
  bool steps_have_ended_ = false;
  absl::Status ends_with_;  // Set by EndWith.
  bool unless_trained_ = false;
  bool is_fenced_ = false;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_RUN_PHASES_H_
