// TF-Slim's model_deploy for graphs of ml/graph. It builds copies of one model ("clones") on the
// devices of a replica and sums their losses and gradients. No other code makes clones.
//
//   ASSIGN_OR_RETURN(DeploymentConfig config, DeploymentConfig::Create({.num_clones = 2}));
//   ASSIGN_OR_RETURN(DeployedModel model, Deploy(config, builder, model_fn, &optimizer));
//
// Nothing here changes variables: a train_op lists the gradients and statistics of a step, and the
// owner of the variables (a ps, or this process) applies them. The functions add nodes to the
// builder's graph. Errors are those of the builder, or InvalidArgument, with TF-Slim's text if
// TF-Slim has the same error.
#ifndef SHOAL_ML_DEPLOY_MODEL_DEPLOY_H_
#define SHOAL_ML_DEPLOY_MODEL_DEPLOY_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/deploy/deployment_config.h"
#include "ml/graph/graph_builder.h"

namespace shoal {

namespace v1 {
class OptimizerConfig;
}

// Builds one copy of the model and adds its losses and update ops to the collections of the graph.
// Its result becomes Clone::outputs, which this file does not interpret. CreateClones calls it once
// per clone, in order; each call takes its own part of the batch, see InputQueue.
using CloneFunction = std::function<std::vector<Output>(GraphBuilder& builder)>;

struct Clone {
  std::vector<Output> outputs;  // the result of the CloneFunction
  std::string scope;            // "clone_0/", or "" for a single clone
  std::string device;
  int index = 0;
};

struct GradientAndVariable {
  Output gradient;  // not valid if the loss does not depend on the variable
  Output variable;
};

struct ScalarSummary {
  std::string name;
  Output value;
};

// A request to record the distribution of a tensor's values and, if norm_name is not empty, their
// L2 norm as a scalar.
struct HistogramSummary {
  std::string name;
  std::string norm_name;
  Output value;
};

// The fetches of a training step: the loss before the update, and the contributions to the
// variables.
struct TrainOp {
  Output total_loss;
  std::vector<GradientAndVariable> gradients;  // all valid
  // The gradients of the rows of tables; the "variables" are the inputs TableInput::rows of the
  // graph. A table is missing if the loss does not depend on it.
  std::vector<GradientAndVariable> row_gradients;
  std::vector<Output> update_ops;  // statistics (such as batch norm's moments) of the first clone
  Output global_step;
  const v1::OptimizerConfig* optimizer = nullptr;  // borrowed from the caller
};

struct DeployedModel {
  std::optional<TrainOp> train_op;  // only with an optimizer and something to train
  // Those that the model adds to kSummaries, then the losses. A run copies all of them to the CPU.
  std::vector<ScalarSummary> summaries;
  // The tensors that the model adds to kSummaries and, with summarize_gradients, the gradients.
  std::vector<HistogramSummary> histograms;
  Output total_loss;           // data_loss + regularization_loss; not valid if there are neither
  Output data_loss;            // weighted mean over the clones; not valid if they have none
  Output regularization_loss;  // not valid if there is none
  Output correct_count;        // sum over the clones; not valid if they count nothing
  std::vector<Clone> clones;
};

// Builds all clones. Layers that need every clone, such as BatchNorm with sync_clones, are complete
// when it returns.
absl::StatusOr<std::vector<Clone>> CreateClones(const DeploymentConfig& config,
                                                GraphBuilder& builder,
                                                const CloneFunction& model_fn);

// The loss of one clone, computed on its device. `data` is the sum of the clone's losses divided by
// num_clones; if CompileRequest::clone_examples is set, it is weighted by the clone's share of the
// examples instead. `regularization` is the sum of the regularization losses, and `total` the sum
// of both. An output is not valid if there are no such losses.
struct CloneLoss {
  Output total;
  Output data;
  Output regularization;
};
CloneLoss GatherCloneLoss(GraphBuilder& builder, const Clone& clone, int num_clones,
                          const std::vector<Output>& regularization_losses,
                          std::vector<ScalarSummary>* summaries = nullptr);

struct OptimizeClonesOptions {
  // The losses to add to the first clone's loss. Not set: the whole collection
  // kRegularizationLosses.
  std::optional<std::vector<Output>> regularization_losses;
  // Not set: all trainable variables, then the rows of all tables (TableInput::rows).
  std::optional<std::vector<Output>> variables;
  // DeploymentConfig::reduce_devices().
  std::vector<std::string> reduce_devices = {};
};
struct OptimizedClones {
  Output total_loss, data_loss, regularization_loss;
  std::vector<GradientAndVariable> gradients;  // summed over the clones, all valid
  std::vector<ScalarSummary> summaries;
};
// Adds the clones' losses, their gradients, and the sums of both over the clones. If layers
// exchange values between clones, a clone's loss depends on all clones. Then the gradients are
// those of the total loss: each clone computes the part from its own nodes (BuildCloneGradients),
// and the parts are summed. Returns InvalidArgument if no clone has a loss.
absl::StatusOr<OptimizedClones> OptimizeClones(GraphBuilder& builder,
                                               const std::vector<Clone>& clones,
                                               const OptimizeClonesOptions& options = {});

// Returns for each variable the sum of the clones' gradients, added in the order of the clones. A
// single gradient is not copied, and a variable without gradients is left out. All lists must have
// the same variables in the same order. If `devices` is not empty, each of them sums the gradients
// of a part of the variables; because all devices then read the sums, this is an all-reduce. The
// order of additions does not depend on the devices.
std::vector<GradientAndVariable> SumClonesGradients(
    GraphBuilder& builder, const std::vector<std::vector<GradientAndVariable>>& clone_gradients,
    const std::vector<std::string>& devices = {});

// Returns a summary "<variable>/gradient", with the norm "<variable>/gradient_norm", for each
// gradient. Logs the variables without a gradient.
std::vector<HistogramSummary> AddGradientsSummaries(
    const std::vector<GradientAndVariable>& gradients);

// Builds the clones, the losses and, if `optimizer` is not null, the gradients. The optimizer is
// borrowed: the train_op keeps the pointer.
absl::StatusOr<DeployedModel> Deploy(const DeploymentConfig& config, GraphBuilder& builder,
                                     const CloneFunction& model_fn,
                                     const v1::OptimizerConfig* optimizer = nullptr,
                                     bool summarize_gradients = false);

}  // namespace shoal

#endif  // SHOAL_ML_DEPLOY_MODEL_DEPLOY_H_
