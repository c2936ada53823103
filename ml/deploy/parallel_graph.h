// Builds the graph of a ParallelModel: copies of a model on devices, inputs that are divided along
// the batch, and merged outputs. Private to ParallelModel.
#ifndef SHOAL_ML_DEPLOY_PARALLEL_GRAPH_H_
#define SHOAL_ML_DEPLOY_PARALLEL_GRAPH_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/data/dataset.h"
#include "ml/deploy/model_deploy.h"
#include "ml/graph/graph_builder.h"
#include "ml/nn/model.h"

namespace shoal {

// The model that is computed in parallel.
struct ParallelModelSpec {
  // Builds one copy of the model from its part of the inputs ([batch, ...], in the order of
  // `inputs`) and returns its outputs: [batch, ...], or scalars that are means over the batch.
  using Model = std::function<std::vector<Output>(
      GraphBuilder& builder, absl::Span<const Output> inputs, bool is_training)>;
  // Builds the loss, a scalar, from the model's outputs for the whole batch and the targets. Only
  // the returned value counts, whether or not it is also in the collection of losses (AddLoss adds
  // it).
  using Loss = std::function<Output(GraphBuilder& builder, absl::Span<const Output> outputs,
                                    absl::Span<const Output> targets)>;

  std::vector<FieldSpec> inputs;
  Model model;
  std::vector<FieldSpec> targets = {};  // the inputs of the loss other than the model's outputs
  Loss loss = nullptr;                  // null: the model only predicts
};

struct ParallelGraph {
  std::unique_ptr<Graph> graph;
  std::unique_ptr<InputQueue> queue;  // batches(): [clone][input]
  std::vector<Clone> clones;          // outputs: the model's
  // The members below are set only for training.
  std::vector<Output> targets;  // placeholders of the whole batch
  // One per output: tensors are concatenated along the batch, scalars are averaged over the batch.
  std::vector<Output> merged;
  Output loss;  // the loss of the merged outputs plus the regularization losses of one copy
  std::vector<Output> gradients;   // one per variable; not valid if the loss does not depend on it
  std::vector<Output> statistics;  // one per variable, from the first clone; most are not valid
};

// Builds one clone for each device and, if `is_training`, the loss and its gradients; the spec must
// have a loss then. Returns InvalidArgument if the model does not fit its inputs, or if the loss is
// not a scalar or depends on no trainable variable.
absl::StatusOr<ParallelGraph> BuildParallelGraph(const ParallelModelSpec& spec,
                                                 const std::vector<std::string>& devices,
                                                 bool is_training);

// Divides the examples evenly among the clones and returns the number for each clone; the first
// clones get one more if there is a remainder.
std::vector<int64_t> SplitExamples(int64_t num_examples, int64_t num_clones);

}  // namespace shoal

#endif  // SHOAL_ML_DEPLOY_PARALLEL_GRAPH_H_
