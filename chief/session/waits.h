#ifndef SHOAL_CHIEF_SESSION_WAITS_H_
#define SHOAL_CHIEF_SESSION_WAITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "chief/session/admission.h"
#include "chief/session/roster.h"
#include "chief/session/session_context.h"

namespace shoal {

// Knows what the run waits for, names it in the log, and ends the run when a wait takes too long.
// Not thread-safe.
class Waits {
 public:
  // All are borrowed.
  Waits(SessionContext* context, const Admission* admission, const Roster* roster)
      : context_(*context), admission_(*admission), roster_(*roster) {}

  // Looks at all waits and their deadlines.
  void Check(absl::Time now);

  struct Current {
    bool is_waiting = false;
    bool is_for_progress = false;  // All tasks are there, but no step is complete yet.
    std::string whom;              // "ps/1"
    std::string what;              // "to register"
    absl::Duration waited;
  };
  Current current(absl::Time now) const;

 private:
  // The things that the run cannot continue without. It waits for one at a time: the first that
  // applies.
  enum class Kind { kNone, kRegistration, kPs, kVariables, kLastCut, kWorkers, kProgress };
  struct Text {
    std::string whom, what, remedy;  // "ps/1", "to register", "start them with ..."
  };

  Kind CurrentKind() const;
  Text Describe(Kind kind) const;
  Text DescribeRegistration() const;
  Text DescribeWorkers() const;
  Text DescribeProgress() const;
  // Returns false if the run has ended because a lost ps has not come back.
  bool CheckLostPs(absl::Time now);
  // Returns false if the run has ended because its stop took too long.
  bool CheckStop(absl::Time now);
  void CheckCurrent(absl::Time now);
  // Notes how long the wait took that ends now, if it was long enough to be noted.
  void NoteEnd(absl::Time now);

  // Return names of tasks, for messages.
  std::vector<std::string> LostPs() const;
  std::string AnyWorker() const;
  std::string PsWithoutVariables() const;
  // Returns text that begins with a space, or "" if there are none.
  std::string LoadTroubles() const;
  std::vector<uint32_t> PsWithoutLastShard() const;

  SessionContext& context_;
  const Admission& admission_;
  const Roster& roster_;
  absl::Time stop_deadline_ = absl::InfiniteFuture();  // Finite once the run is interrupted.
  // A stop waited too long for the next step, so its checkpoint is of the newest complete one.
  bool has_given_steps_up_ = false;
  // Finite while the last checkpoint needs another step and no worker computes it.
  absl::Time steps_deadline_ = absl::InfiniteFuture();
  Kind kind_ = Kind::kNone;
  absl::Time since_ = absl::InfinitePast();
  absl::Time next_note_ = absl::InfiniteFuture();
  uint64_t num_waits_ = 0;  // Waits that were noted, this one included.
  std::string noted_;       // "ps/0 to come back", once this wait is noted.
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_WAITS_H_
