// The tasks of a simulated run: assembled as in production from the same classes, but with
// connections, files and a clock that are simulated.
#ifndef SHOAL_TESTS_SIMULATION_SIMULATED_TASKS_H_
#define SHOAL_TESTS_SIMULATION_SIMULATED_TASKS_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "proto/v1/run_config.pb.h"
#include "runtime/cluster/batch_key.h"
#include "tests/simulation/fibers.h"
#include "tests/simulation/simulated_files.h"
#include "tests/simulation/simulated_model.h"
#include "tests/simulation/simulated_network.h"

namespace shoal {

class Chief;

// What a run is made of, drawn from the seed.
struct SimulatedRun {
  uint64_t seed = 0;
  bool synchronous = true;
  uint32_t num_ps = 1;
  uint32_t num_workers = 1;
  v1::RunConfig run;
  uint64_t train_examples = 1;
  uint64_t evaluation_blocks = 0;
  std::set<BatchKey> non_finite;  // In some slices.
  std::set<BatchKey> deadly;      // Kill whoever computes them.
  std::set<BatchKey> flaky;       // Kill every other time.
  size_t ps_threads = 1;          // Over as many parts the slices of a ps are spread.
  double slow_worker = 1;         // Times what worker/0 takes for a batch.
};

// What all tasks share.
struct TaskEnvironment {
  const SimulatedRun* run = nullptr;
  const SimulatedModel* model = nullptr;
  Fibers* fibers = nullptr;
  SimulatedNetwork* network = nullptr;
  SimulatedDisks* disks = nullptr;
  SeededRandom* random = nullptr;
  // A batch crashed the process, at this moment.
  std::function<void(SimulatedProcess*)> crash;
  // A chief goes on, or begins: it is there from here on.
  std::function<void(SimulatedProcess*, Chief*)> on_chief;
};

// Each runs on a fiber of its process until the task ends, and returns what it ends with. What must
// happen for that when the process was killed is put into `*end` first.
absl::Status RunSimulatedChief(const TaskEnvironment& environment, SimulatedProcess* process,
                               std::function<void()>* end);
absl::Status RunSimulatedPs(const TaskEnvironment& environment, SimulatedProcess* process,
                            uint32_t index, std::function<void()>* end);
absl::Status RunSimulatedWorker(const TaskEnvironment& environment, SimulatedProcess* process,
                                uint32_t index, std::function<void()>* end);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_TASKS_H_
