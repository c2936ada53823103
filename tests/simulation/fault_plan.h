// The faults of a simulated run and their times. They are drawn from the seed before the run
// begins, so that the plan of a failing seed can be printed.
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
    kKillChief,  // Only the chief dies; a new one starts with a higher term.
    kKillAll,
    kPauseWorker,  // Like SIGSTOP, or a suspended machine.
    kPausePs,
    kPauseChief,
    kPartition,  // Two groups of tasks cannot reach each other.
    kCutOneWay,  // Messages from `task` to `other` do not arrive.
    kCutBothWays,
    kLoss,          // Messages are lost, repeated or damaged.
    kWrongAnswers,  // A proxy between the tasks answers with an error code.
    kSlowDisk,
    kFailingDisk,        // Every change fails, or every `rate`-th one.
    kDamagedCheckpoint,  // The newest checkpoint is damaged and all tasks are killed.
    kStop,               // The run is stopped by request and started again.
    kCheckpoint,         // The operator requests a checkpoint.
    kForgedTerm,         // A stolen worker key: messages in that worker's name claim a higher term.
    kNumKinds,
  };
  Kind kind = kNumKinds;
  double at = 0;       // Seconds from the start of the run to the start of the fault.
  double seconds = 0;  // The length of the fault.
  std::string task;    // The affected task, such as "ps/0", or the sender of a cut link.
  std::string other;   // The receiver of a cut link.
  std::vector<std::string> group;  // kPartition: the tasks of one side.
  double rate = 0;
  absl::Status status;
  std::string method;

  std::string ToString() const;
};

const char* NameOf(PlannedFault::Kind kind);

struct FaultPlan {
  std::vector<PlannedFault> faults;
  double end = 0;  // Seconds from the start; no fault is active later than this.

  std::string ToString() const;
};

// Flags for all kinds, all true; `allowed` below has the same form.
std::vector<bool> AllFaults();
FaultPlan DrawFaults(SeededRandom* random, uint32_t num_ps, uint32_t num_workers,
                     const std::vector<bool>& allowed);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_FAULT_PLAN_H_
