// TF-Slim's model_deploy on our graph: copies of one model ("clones") on the devices of a replica,
// their losses and gradients summed. The only way clones are made.
//
//   ASSIGN_OR_RETURN(DeploymentConfig config, DeploymentConfig::Create({.num_clones = 2}));
//   ASSIGN_OR_RETURN(DeployedModel model, Deploy(config, builder, model_fn, &optimizer));
//
// Nothing here changes variables: a train_op names the gradients and statistics that a step
// contributes, and whose owner applies them. The functions add to the builder's graph; errors are
// InvalidArgument with TF-Slim's texts where it has one, or the builder's.
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

// Builds one copy of the model, adds its losses and update ops to the collections, and returns what
// it likes. Called once per clone, in order; each call takes its own part of the input, see
// InputQueue.
using CloneFunction = std::function<std::vector<Output>(GraphBuilder& builder)>;

struct Clone {
  std::vector<Output> outputs;  // of the CloneFunction
  std::string scope;            // "clone_0/", or "" for a single clone
  std::string device;
  int index = 0;
};

struct GradientAndVariable {
  Output gradient;  // not valid: the loss does not depend on the variable
  Output variable;
};

struct ScalarSummary {
  std::string name;
  Output value;
};

// The distribution of the values is of interest and, if it is named, their L2 norm as a scalar.
struct HistogramSummary {
  std::string name;
  std::string norm_name;
  Output value;
};

// The fetches of a training step: its loss before the update, and what it contributes.
struct TrainOp {
  Output total_loss;
  std::vector<GradientAndVariable> gradients;  // all valid
  std::vector<Output> update_ops;              // statistics, of the first clone
  Output global_step;
  const v1::OptimizerConfig* optimizer = nullptr;  // the caller's
};

struct DeployedModel {
  std::optional<TrainOp> train_op;       // only with an optimizer and something to train
  std::vector<ScalarSummary> summaries;  // sorted by name, all on the CPU after a run
  // Tensors that the model collects in kSummaries and, if asked for, the gradients.
  std::vector<HistogramSummary> histograms;
  Output total_loss;           // data_loss + regularization_loss; not valid: no loss at all
  Output data_loss;            // weighted mean over the clones; not valid if they have none
  Output regularization_loss;  // not valid if there is none
  Output correct_count;        // sum over the clones; not valid if they count nothing
  std::vector<Clone> clones;
};

// Layers that need all clones, as BatchNorm with sync_clones, are complete when it returns.
absl::StatusOr<std::vector<Clone>> CreateClones(const DeploymentConfig& config,
                                                GraphBuilder& builder,
                                                const CloneFunction& model_fn);

// The clone's loss on its device: its losses divided by num_clones (weighted by examples if their
// numbers are given when the graph is compiled), plus the regularization losses as they are. Not
// valid if there are neither.
struct CloneLoss {
  Output total;
  Output data;
  Output regularization;
};
CloneLoss GatherCloneLoss(GraphBuilder& builder, const Clone& clone, int num_clones,
                          const std::vector<Output>& regularization_losses,
                          std::vector<ScalarSummary>* summaries = nullptr);

struct OptimizeClonesOptions {
  // Not set: the whole collection. Used by the first clone only.
  std::optional<std::vector<Output>> regularization_losses;
  // Not set: all trainable variables.
  std::optional<std::vector<Output>> variables;
  // DeploymentConfig::reduce_devices().
  std::vector<std::string> reduce_devices = {};
};
struct OptimizedClones {
  Output total_loss, data_loss, regularization_loss;
  std::vector<GradientAndVariable> gradients;  // summed over the clones, all valid
  std::vector<ScalarSummary> summaries;
};
// If layers exchange values between the clones, a clone's loss depends on all of them: then the
// gradients are those of the total loss, summed by clone first. InvalidArgument if no clone has any
// loss.
absl::StatusOr<OptimizedClones> OptimizeClones(GraphBuilder& builder,
                                               const std::vector<Clone>& clones,
                                               const OptimizeClonesOptions& options = {});

// Per variable the sum of the clones' gradients, in order; one alone is passed through; a variable
// without any is left out. All lists must name the same variables in the same order. With devices,
// each takes its part of the variables: an all-reduce, since all of them read the sums. The order
// of additions is the same in any case.
std::vector<GradientAndVariable> SumClonesGradients(
    GraphBuilder& builder, const std::vector<std::vector<GradientAndVariable>>& clone_gradients,
    const std::vector<std::string>& devices = {});

// "<variable>/gradient" with "<variable>/gradient_norm" for each gradient. A variable without one
// is logged.
std::vector<HistogramSummary> AddGradientsSummaries(
    const std::vector<GradientAndVariable>& gradients);

// Clones, losses and, with an optimizer (borrowed, kept in the train_op), gradients.
absl::StatusOr<DeployedModel> Deploy(const DeploymentConfig& config, GraphBuilder& builder,
                                     const CloneFunction& model_fn,
                                     const v1::OptimizerConfig* optimizer = nullptr,
                                     bool summarize_gradients = false);

}  // namespace shoal

#endif  // SHOAL_ML_DEPLOY_MODEL_DEPLOY_H_
