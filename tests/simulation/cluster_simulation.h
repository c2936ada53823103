// One run of a simulated cluster under faults drawn from its seed, and the judgement on it.
#ifndef SHOAL_TESTS_SIMULATION_CLUSTER_SIMULATION_H_
#define SHOAL_TESTS_SIMULATION_CLUSTER_SIMULATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "chief/chief.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/tables/bucket_rows.h"
#include "tests/simulation/fault_plan.h"
#include "tests/simulation/fibers.h"
#include "tests/simulation/history.h"
#include "tests/simulation/simulated_files.h"
#include "tests/simulation/simulated_model.h"
#include "tests/simulation/simulated_network.h"
#include "tests/simulation/simulated_tasks.h"

namespace shoal {

// The real chief, ps and workers with their threads (fibers.h), on a simulated network and disk. A
// supervisor restarts every task that ends or is killed, as Kubernetes would.
//
// The judgement checks the rules of history.h, and that
//   - SYNC: the last checkpoint holds, bit for bit, the values and slots of a sequential run
//     without the skipped batches;
//   - ASYNC: every slice of the last checkpoint holds every batch exactly once;
//   - every row of a table has every batch that touched it exactly once (table_ledger.h);
//   - only bad batches were skipped;
//   - metrics.jsonl has one line for each step, with that step's own figures.
class ClusterSimulation {
 public:
  struct Options {
    uint64_t seed = 0;
    bool synchronous = true;
    bool tables = false;  // The model has tables, beside dense variables.
    // Faults that may happen, indexed by PlannedFault::Kind.
    std::vector<bool> allowed = AllFaults();
    bool bad_batches = true;
    // At this time of a training run all workers die for good, and the chief is asked for a last
    // checkpoint. All tasks start again when it has ended. 0: never.
    double workers_gone_at = 0;
    bool verbose = false;  // Prints what happens.
  };
  explicit ClusterSimulation(Options options);
  ~ClusterSimulation();

  // Runs the simulation. Returns the promise that was broken; "" if none was.
  std::string Run();

  // Describes the run's configuration and its planned faults.
  std::string Describe() const;

  struct Recovery {
    PlannedFault::Kind kind;
    double seconds;  // The time from the fault to the first step beyond those applied before it.
  };
  struct Counts {
    uint64_t steps = 0;
    uint64_t skipped = 0;
    uint64_t lives = 0;
    uint64_t turns = 0;
    uint64_t faults[PlannedFault::kNumKinds] = {};
    SimulatedNetwork::Counts network;
    uint64_t failed_changes = 0;
    // The last checkpoint's rows of tables, its keys that wait for a row, and whether it has only
    // changes since another one.
    uint64_t rows = 0;
    uint64_t counted_keys = 0;
    bool is_delta = false;
    double seconds = 0;
    std::vector<Recovery> recoveries;   // Filled only for runs with exactly one fault.
    std::vector<std::string> failures;  // The reasons of chiefs that gave the run up.
    // Used with workers_gone_at: the step that the chief knew then, if it trained, and the step of
    // the checkpoint from which the run resumed.
    std::optional<uint64_t> step_without_workers;
    uint64_t last_checkpoint = 0;
    // The steps of checkpoints that stops made which had waited for long: the chief may have given
    // up the evaluation of such a step.
    std::set<uint64_t> slow_stops;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Life {
    SimulatedProcess process;
    std::function<void()> end;
    bool ended = false;
  };

  void DrawRun();
  Life* Start(const std::string& task);
  void RunTask(Life* life);
  void OnEnded(Life* life, const absl::Status& status);
  void StartLater(const std::string& task, double low, double high);
  void KillTask(const std::string& task);
  void Crash(SimulatedProcess* process);
  void OnChief(SimulatedProcess* process, Chief* chief);
  void Inject(const PlannedFault& fault);
  void RequestStop(const v1::RequestStopRequest& request);
  void LoseWorkers();
  void ForgeTerm(const std::string& task);
  void PauseTask(const std::string& task, double seconds);
  void Watch();
  // Notes tasks that have lost their leases although they live, and checks that a ps stops acting
  // before the chief gives its place to another process.
  void WatchLeases(const v1::GetRunStatusResponse& status);
  void Note(const std::string& text);
  void Add(HistoryEvent event);
  void AddTrouble();
  std::string Stuck() const;
  // The verdict.
  std::string Judge();
  std::string JudgeSync(Checkpoint& checkpoint, const std::set<BatchKey>& skipped);
  std::string JudgeAsync(Checkpoint& checkpoint, const std::set<BatchKey>& skipped);
  // A bucket of a table.
  std::string JudgeBucketAsync(Checkpoint& checkpoint, uint32_t slice,
                               const std::vector<BatchKey>& counted,
                               const std::vector<BatchKey>& perhaps);
  absl::StatusOr<BucketRows> ReadBucket(Checkpoint& checkpoint, uint32_t slice);

  const Options options_;
  SimulatedRun run_;
  Fibers fibers_;
  SeededRandom random_;
  SimulatedModel model_;
  SimulatedNetwork network_;
  SimulatedDisks disks_;
  FaultPlan plan_;
  TaskEnvironment environment_;
  std::vector<std::unique_ptr<Life>> lives_;
  std::map<std::string, Life*> current_;  // The newest life of each task.
  Chief* chief_ = nullptr;                // The chief of the current life; null if none runs.
  uint64_t chief_term_ = 0;
  uint64_t failed_term_ = 0;  // The newest term whose chief has given the run up.
  absl::Time stop_requested_at_ = absl::InfiniteFuture();
  bool stop_was_slow_ = false;  // the last chief ended with such a stop
  bool workers_are_gone_ = false;
  bool over_ = false;
  bool ending_ = false;  // The simulation is shutting down: tasks that end are not restarted.
  std::string failure_;
  History history_;
  // The steps from which recovery times follow.
  uint64_t highest_step_ = 0;
  uint64_t newest_step_ = 0;
  uint64_t wanted_step_ = 0;
  double fault_time_ = -1;
  Counts counts_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_CLUSTER_SIMULATION_H_
