// Trains a model that Deploy (ml/deploy/model_deploy.h) has built, in this process and without a
// cluster. It is the loop of TF-Slim's slim.learning.train, with its summaries and checkpoints.
#ifndef SHOAL_WORKER_REPLICA_TRAINING_LOOP_H_
#define SHOAL_WORKER_REPLICA_TRAINING_LOOP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "ml/deploy/model_deploy.h"
#include "ml/device/kernel.h"
#include "ml/graph/executable.h"
#include "ml/nn/model.h"
#include "ml/tensor/tensor.h"
#include "runtime/observability/event_file.h"
#include "runtime/process/run_lock.h"
#include "runtime/variables/owned_variables.h"
#include "worker/replica/loop_checkpoints.h"

namespace shoal {

struct TrainingLoopOptions {
  int64_t batch_size = 32;    // examples per clone and step
  uint64_t seed = 1;          // seeds first values, the order of examples and random ops
  std::string log_directory;  // receives an event file for TensorBoard; empty: none is written
  // The loop writes the model's summaries after the first step and every this many steps; 0: never.
  int64_t summarize_every_steps = 100;
  int64_t log_every_steps = 100;  // The loop logs step, loss and speed this often; 0: never.
  // Receives checkpoints, in the folder "checkpoints" as a run's directory does: `shoal inspect`
  // lists them, and `shoal train --init_from` starts a run from them. Create restores the newest
  // undamaged one. Empty: there are none. One loop at a time may use a directory, which must not be
  // that of a run.
  std::string checkpoint_directory;
  // Train makes a checkpoint every this many steps, and when it returns if it has trained. 0: only
  // when it returns.
  int64_t checkpoint_every_steps = 1000;
  int checkpoints_to_keep = 5;  // the newest ones; others are deleted
  // The devices that the deployment's clones may use, as DeploymentConfigOptions::clone_devices
  // names them.
  std::vector<std::string> devices = {"/cpu:0"};
  int threads_per_device = 1;
  // True: a listed device that is missing is replaced by the CPU of its number; false: Create
  // fails.
  bool allow_soft_placement = true;
};

// The loop of one program: it owns the variables, takes steps, writes summaries and checkpoints.
// Not thread-safe.
class TrainingLoop {
 public:
  // Borrows all arguments but the options for the loop's life. All clones must take their batches
  // from `queue`. InvalidArgument: the model was deployed without an optimizer, a step needs more
  // examples than the data set has, a field is ragged, an option has a bad value (such as
  // "s3://bucket" for a directory), or a device is missing. FailedPrecondition: the checkpoint has
  // another model, optimizer, seed, batch or data set; DataLoss: all checkpoints are damaged;
  // AlreadyExists: another loop, or a run, uses the directory.
  static absl::StatusOr<std::unique_ptr<TrainingLoop>> Create(const Graph& graph,
                                                              const DeployedModel& model,
                                                              const InputQueue& queue,
                                                              const Dataset& dataset,
                                                              const TrainingLoopOptions& options);

  // Trains for `num_steps` steps on full batches, epoch after epoch, and continues where the
  // previous call, or the restored checkpoint, ended: the values are the same bytes as those of one
  // call without an end. Returns the loss of the last step, computed before its update (NaN if this
  // loop has taken none). Returns the error of the data set, of the event file, of a device, or of
  // a checkpoint, which names its path; the steps before the error are kept.
  absl::StatusOr<float> Train(int64_t num_steps);

  // Trains until step() is `last_step`, as slim.learning.train does with number_of_steps: a program
  // that is killed and started again ends at the same step. If that step is reached already, takes
  // no step and returns what Train(0) does. The errors are those of Train.
  absl::StatusOr<float> TrainTo(int64_t last_step);

  // Returns the number of updates of the variables, with those before the restored checkpoint.
  int64_t step() const { return static_cast<int64_t>(variables_->step()); }

  // Listed devices that this build or machine does not have; soft placement uses CPUs instead.
  std::vector<std::string> missing_devices() const;

  // Returns the values after the last step, numbered as Graph::variables().
  const OwnedVariables& variables() const { return *variables_; }

 private:
  TrainingLoop(const Graph& graph, const DeployedModel& model, const InputQueue& queue,
               const Dataset& dataset, const TrainingLoopOptions& options, const BatchPlan& plan);

  absl::Status Prepare();
  // Opens the checkpoints and restores the newest one, if the options name a directory.
  absl::Status RestoreCheckpoint();
  absl::Status SaveCheckpoint();
  void ChooseFetches();
  void MakeMemory();
  absl::Status TakeStep();
  absl::Status TakeSteps(int64_t num_steps);
  absl::Status WriteSummaries(int64_t step);
  const Tensor& result(const Output& fetch) const;

  const Graph& graph_;
  const DeployedModel& model_;
  const InputQueue& queue_;
  const Dataset& dataset_;
  const TrainingLoopOptions options_;
  const BatchPlan plan_;
  const KernelBackend backend_;
  const std::vector<KernelBackend> accelerators_;
  std::unique_ptr<OwnedVariables> variables_;
  std::optional<RunLock> lock_;                   // that of checkpoint_directory
  std::unique_ptr<LoopCheckpoints> checkpoints_;  // null: the options name no directory
  int64_t saved_step_ = 0;                        // the step of the newest checkpoint, or 0
  std::unique_ptr<Executable> executable_;
  // The loss, the gradients, the update ops, the summaries.
  std::vector<Output> fetches_;
  std::vector<int> contributes_;  // the variables of fetches_[1], fetches_[2], ...
  std::vector<Tensor> fields_;    // the fields of the replica's batch
  std::vector<int64_t> indices_;
  std::vector<Tensor> results_;  // indexed by fetch
  std::vector<const float*> contributions_;
  std::vector<const void*> inputs_, values_;
  std::vector<uint64_t> versions_;
  std::vector<void*> outputs_;
  const RealClock clock_;
  const std::unique_ptr<FileSystem> file_system_;
  EventFile events_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_TRAINING_LOOP_H_
