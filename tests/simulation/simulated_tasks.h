// The tasks of a simulated run. They consist of the same classes as in production, with simulated
// connections, files and clock.
#ifndef SHOAL_TESTS_SIMULATION_SIMULATED_TASKS_H_
#define SHOAL_TESTS_SIMULATION_SIMULATED_TASKS_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "ml/data/batch_plan.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/plan/batch_key.h"
#include "tests/simulation/fibers.h"
#include "tests/simulation/simulated_files.h"
#include "tests/simulation/simulated_model.h"
#include "tests/simulation/simulated_network.h"

namespace shoal {

class Chief;

// The configuration of a simulated run, drawn from the seed.
struct SimulatedRun {
  uint64_t seed = 0;
  bool synchronous = true;
  uint32_t num_ps = 1;
  uint32_t num_workers = 1;
  v1::RunConfig run;
  uint64_t train_examples = 1;
  uint64_t evaluation_blocks = 0;
  std::set<BatchKey> non_finite;  // Batches with non-finite gradients in some slices.
  std::set<BatchKey> deadly;      // Batches that kill every worker that computes them.
  std::set<BatchKey> flaky;       // Batches that kill the worker every other time.
  size_t ps_threads = 1;          // The slices of a ps are spread over this many parts.
  double slow_worker = 1;         // A factor on the time that worker/0 takes for a batch.
};

// Returns the batches of the training data.
BatchPlan TrainPlanOf(const SimulatedRun& run);

// The objects that all tasks of a run share.
struct TaskEnvironment {
  const SimulatedRun* run = nullptr;
  const SimulatedModel* model = nullptr;
  Fibers* fibers = nullptr;
  SimulatedNetwork* network = nullptr;
  SimulatedDisks* disks = nullptr;
  SeededRandom* random = nullptr;
  // Called at the moment in which a batch crashes the process.
  std::function<void(SimulatedProcess*)> crash;
  // Called when a chief has started or resumed the run.
  std::function<void(SimulatedProcess*, Chief*)> on_chief;
};

// Each function runs a task on a fiber of its process until the task ends, and returns the task's
// status. Before that it stores in `*end` a callback that makes the task end, for when the process
// is killed.
absl::Status RunSimulatedChief(const TaskEnvironment& environment, SimulatedProcess* process,
                               std::function<void()>* end);
absl::Status RunSimulatedPs(const TaskEnvironment& environment, SimulatedProcess* process,
                            uint32_t index, std::function<void()>* end);
absl::Status RunSimulatedWorker(const TaskEnvironment& environment, SimulatedProcess* process,
                                uint32_t index, std::function<void()>* end);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_TASKS_H_
