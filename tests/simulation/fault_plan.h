// What goes wrong in a simulated run, and when: drawn from the seed before the run begins, so that
// a seed that fails explains itself.
#ifndef SHOAL_TESTS_SIMULATION_FAULT_PLAN_H_
#define SHOAL_TESTS_SIMULATION_FAULT_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "tests/simulation/fibers.h"

namespace shoal {

struct PlannedFault {
  enum Kind {
    kKillWorker,
    kKillPs,
    kKillChief,  // Alone: a new one starts with a higher term.
    kKillAll,
    kPauseWorker,  // As SIGSTOP, or a suspended machine.
    kPausePs,
    kPauseChief,
    kPartition,  // Between two groups of tasks.
    kCutOneWay,  // What one task sends to another does not arrive.
    kCutBothWays,
    kLoss,          // Messages are lost, repeated, damaged.
    kWrongAnswers,  // Something between the tasks answers with an error code.
    kSlowDisk,
    kFailingDisk,
    kDamagedCheckpoint,  // The newest one; with everything killed.
    kStop,               // The run is asked to stop, and started again.
    kCheckpoint,         // Asked for by hand.
    kForgedTerm,         // A worker's key is stolen: messages in its name claim a higher term.
    kNumKinds,
  };
  Kind kind = kNumKinds;
  double at = 0;                   // Seconds since the start,
  double seconds = 0;              // and how long it lasts.
  std::string task;                // "ps/0"; whom it concerns, or who sends.
  std::string other;               // To whom.
  std::vector<std::string> group;  // kPartition: one side.
  double rate = 0;
  absl::Status status;
  std::string method;

  std::string ToString() const;
};

const char* NameOf(PlannedFault::Kind kind);

struct FaultPlan {
  std::vector<PlannedFault> faults;
  double end = 0;  // From here on nothing goes wrong any more.

  std::string ToString() const;
};

// `allowed`: by kind.
std::vector<bool> AllFaults();
FaultPlan DrawFaults(SeededRandom* random, uint32_t num_ps, uint32_t num_workers,
                     const std::vector<bool>& allowed);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_FAULT_PLAN_H_
