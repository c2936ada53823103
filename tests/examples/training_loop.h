// Trains a deployed model in one thread, without a cluster: what slim.learning.train is to TF-Slim,
// as small as examples need it. Real runs are `shoal train`.
#ifndef SHOAL_TESTS_EXAMPLES_TRAINING_LOOP_H_
#define SHOAL_TESTS_EXAMPLES_TRAINING_LOOP_H_

#include <cstdint>
#include <memory>
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
#include "ml/optim/update_rule.h"
#include "ml/tensor/tensor.h"
#include "runtime/observability/event_file.h"

namespace shoal {

struct TrainingLoopOptions {
  int64_t batch_size = 32;  // per clone
  uint64_t seed = 1;
  std::string log_directory;  // gets an event file for TensorBoard; empty: none
};

class TrainingLoop {
 public:
  // All borrowed for the loop's life. The model must have been deployed with an optimizer, on
  // clones that take their batches from the queue.
  static absl::StatusOr<std::unique_ptr<TrainingLoop>> Create(const Graph& graph,
                                                              const DeployedModel& model,
                                                              const InputQueue& queue,
                                                              const Dataset& dataset,
                                                              const TrainingLoopOptions& options);

  // Takes that many steps on full batches, epoch after epoch. Returns the last step's loss, before
  // its update.
  absl::StatusOr<float> Train(int64_t num_steps);

  const Tensor& value(int variable_index) const { return values_[variable_index]; }

 private:
  TrainingLoop(const Graph& graph, const DeployedModel& model, const InputQueue& queue,
               const Dataset& dataset, const TrainingLoopOptions& options, const BatchPlan& plan);

  absl::Status Prepare();
  void MakeMemory();
  absl::Status LoadBatch(int64_t step);
  absl::Status Update(int64_t step);
  absl::Status WriteSummaries(int64_t step);
  const Tensor& result(const Output& fetch) const;

  const Graph& graph_;
  const DeployedModel& model_;
  const InputQueue& queue_;
  const Dataset& dataset_;
  const TrainingLoopOptions options_;
  const BatchPlan plan_;
  KernelBackend backend_;
  std::unique_ptr<UpdateRule> rule_;
  std::unique_ptr<Executable> executable_;
  std::vector<Output> fetches_;  // the loss, the gradients, the update ops, the summaries
  std::vector<Tensor> fields_;   // of the replica's batch
  std::vector<int64_t> indices_;
  std::vector<Tensor> values_;              // by variable
  std::vector<std::vector<Tensor>> slots_;  // by variable
  std::vector<Tensor> results_;             // by fetch
  std::vector<const void*> inputs_, variables_;
  std::vector<void*> outputs_;
  const RealClock clock_;
  const std::unique_ptr<FileSystem> file_system_;
  EventFile events_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_EXAMPLES_TRAINING_LOOP_H_
