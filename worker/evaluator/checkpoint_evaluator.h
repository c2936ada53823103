#ifndef SHOAL_WORKER_EVALUATOR_CHECKPOINT_EVALUATOR_H_
#define SHOAL_WORKER_EVALUATOR_CHECKPOINT_EVALUATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "worker/replica/graph_program.h"
#include "worker/replica/model_factory.h"

namespace shoal {

struct Evaluation {
  uint64_t step = 0;
  uint64_t examples = 0;
  double loss = 0;  // mean data loss + regularization
  bool classifies = false;
  double accuracy = 0;                                      // set if `classifies`
  std::map<std::string, std::optional<double>> named = {};  // the model's other metrics
};

// Evaluates checkpoints of a run, one after the other, with the run's model on its test split. Not
// thread-safe.
class CheckpointEvaluator {
 public:
  static absl::StatusOr<std::unique_ptr<CheckpointEvaluator>> Create(const v1::RunConfig& run,
                                                                     const ModelFactory& model);

  // Evaluates block by block, as a training run does. FAILED_PRECONDITION names the first variable
  // that is not the same in model and checkpoint. Returns CANCELLED as soon as `is_stopped` returns
  // true.
  absl::StatusOr<Evaluation> Evaluate(Checkpoint* checkpoint,
                                      const std::function<bool()>& is_stopped,
                                      VariableValues values = VariableValues::kCurrent);

 private:
  CheckpointEvaluator(const v1::RunConfig& run, std::unique_ptr<Dataset> data,
                      std::unique_ptr<GraphProgram> program, BatchPlan plan);

  const v1::RunConfig run_;
  const std::unique_ptr<Dataset> data_;
  const std::unique_ptr<GraphProgram> program_;
  const BatchPlan plan_;  // The plan of the evaluation blocks.
  uint64_t num_evaluations_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_EVALUATOR_CHECKPOINT_EVALUATOR_H_
