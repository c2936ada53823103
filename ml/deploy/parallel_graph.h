// The graph of a ParallelModel: copies of a model on devices, their inputs cut along the batch,
// their outputs merged. Private to ParallelModel.
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
  // One copy of the model, from its part of the inputs ([batch, ...], in the order of `inputs`) to
  // its outputs: [batch, ...], or scalars that are means over the batch.
  using Model = std::function<std::vector<Output>(
      GraphBuilder& builder, absl::Span<const Output> inputs, bool is_training)>;
  // A scalar from the outputs of the whole batch, in order, and the targets. It may add to the
  // collection of losses (AddLoss does) or not; only what it returns counts.
  using Loss = std::function<Output(GraphBuilder& builder, absl::Span<const Output> outputs,
                                    absl::Span<const Output> targets)>;

  std::vector<FieldSpec> inputs;
  Model model;
  std::vector<FieldSpec> targets = {};  // of the loss
  Loss loss = nullptr;                  // none: the model only predicts
};

struct ParallelGraph {
  std::unique_ptr<Graph> graph;
  std::unique_ptr<InputQueue> queue;  // batches(): [clone][input]
  std::vector<Clone> clones;          // outputs: the model's
  std::vector<Output> targets;        // placeholders of the whole batch
  // With a loss only.
  std::vector<Output> merged;      // one per output: in order along the batch; scalars averaged
  Output loss;                     // loss of the merged outputs, and the regularization losses once
  std::vector<Output> gradients;   // one per variable; not valid: the loss does not depend on it
  std::vector<Output> statistics;  // one per variable, from the first clone; most are not valid
};

// One clone per device. InvalidArgument for a model that does not fit its inputs, or a loss that is
// not a scalar or does not depend on a variable.
absl::StatusOr<ParallelGraph> BuildParallelGraph(const ParallelModelSpec& spec,
                                                 const std::vector<std::string>& devices,
                                                 bool is_training);

// n examples over as many clones as evenly as can be, the first ones getting the rest.
std::vector<int64_t> SplitExamples(int64_t num_examples, int64_t num_clones);

}  // namespace shoal

#endif  // SHOAL_ML_DEPLOY_PARALLEL_GRAPH_H_
