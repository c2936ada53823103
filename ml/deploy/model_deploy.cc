#include "ml/deploy/model_deploy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "ml/graph/gradients.h"
#include "ml/graph/ops.h"

namespace shoal {
namespace {

// Returns the sum of the outputs; not valid if there are none.
Output AddSum(GraphBuilder& builder, std::vector<Output> parts, absl::string_view name) {
  parts.erase(
      std::remove_if(parts.begin(), parts.end(), [](const Output& part) { return !part.valid(); }),
      parts.end());
  return parts.empty() ? Output() : ops::AddN(builder, std::move(parts), name);
}

void Summarize(std::vector<ScalarSummary>* summaries, std::string name, Output value) {
  if (summaries != nullptr && value.valid()) summaries->push_back({std::move(name), value});
}

std::vector<GradientAndVariable> MakePairs(const std::vector<Output>& gradients,
                                           const std::vector<Output>& variables) {
  std::vector<GradientAndVariable> pairs;
  for (size_t i = 0; i < variables.size(); ++i) pairs.push_back({gradients[i], variables[i]});
  return pairs;
}

// Returns the trainable variables, then the rows of all tables.
std::vector<Output> AllTrained(const Graph& graph) {
  std::vector<Output> trained = graph.Collection(kTrainableVariables);
  for (const TableInput& table : graph.table_inputs()) trained.push_back(table.rows);
  return trained;
}

// A clone's loss and its gradients; it has no gradients if there is no loss.
absl::StatusOr<std::vector<GradientAndVariable>> OptimizeClone(
    GraphBuilder& builder, const Clone& clone, const CloneLoss& loss,
    const std::vector<Output>& variables) {
  const auto device = builder.WithDevice(clone.device);
  const auto in_clone = builder.WithClone(clone.index);
  ASSIGN_OR_RETURN(const std::vector<Output> gradients,
                   BuildGradients(builder, loss.total, variables));
  return MakePairs(gradients, variables);
}

// The losses of all clones.
struct LossParts {
  std::vector<Output> totals, data;
  Output regularization;

  void Add(const CloneLoss& loss) {
    if (loss.total.valid()) totals.push_back(loss.total);
    if (loss.data.valid()) data.push_back(loss.data);
    if (loss.regularization.valid()) regularization = loss.regularization;
  }
};

// Adds losses without gradients, for evaluation.
OptimizedClones GatherLosses(GraphBuilder& builder, const std::vector<Clone>& clones) {
  OptimizedClones result;
  LossParts parts;
  std::vector<Output> regularization = builder.graph().Collection(kRegularizationLosses);
  for (const Clone& clone : clones) {
    const auto scope = builder.WithNameScope(clone.scope);
    parts.Add(GatherCloneLoss(builder, clone, static_cast<int>(clones.size()), regularization,
                              clone.index == 0 ? &result.summaries : nullptr));
    regularization.clear();
  }
  result.total_loss = AddSum(builder, parts.totals, "total_loss");
  result.data_loss = AddSum(builder, parts.data, "data_loss");
  result.regularization_loss = parts.regularization;
  return result;
}

// Adds the summaries that the first clone has collected, and those that were collected outside all
// clones.
void AddCollectedSummaries(const Graph& graph, const std::string& first_scope,
                           const std::vector<Output>& initial, DeployedModel* model) {
  std::vector<Output> values = initial;
  for (const Output& value : graph.Collection(kSummaries, first_scope)) {
    if (std::count(values.begin(), values.end(), value) == 0) values.push_back(value);
  }
  for (const Output& value : values) {
    if (value.shape().rank() == 0) {
      model->summaries.push_back({value.name(), value});
    } else {
      model->histograms.push_back({value.name(), "", value});
    }
  }
}

absl::Status Train(const DeploymentConfig& config, GraphBuilder& builder,
                   const v1::OptimizerConfig* optimizer, OptimizedClones* optimized,
                   DeployedModel* model) {
  TrainOp train_op;
  {
    const auto variables = builder.WithVariableDevice(config.variables_device());
    train_op.global_step = builder.GetOrCreateGlobalStep();
  }
  OptimizeClonesOptions options;
  options.reduce_devices = config.reduce_devices();
  ASSIGN_OR_RETURN(*optimized, OptimizeClones(builder, model->clones, options));
  if (optimized->gradients.empty()) return absl::OkStatus();
  train_op.total_loss = optimized->total_loss;
  for (const GradientAndVariable& pair : optimized->gradients) {
    const bool is_variable = pair.variable.node->variable_index >= 0;
    (is_variable ? train_op.gradients : train_op.row_gradients).push_back(pair);
  }
  train_op.update_ops = builder.graph().Collection(kUpdateOps, model->clones[0].scope);
  train_op.optimizer = optimizer;
  model->train_op = std::move(train_op);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Clone>> CreateClones(const DeploymentConfig& config,
                                                GraphBuilder& builder,
                                                const CloneFunction& model_fn) {
  std::vector<Clone> clones;
  const auto variables = builder.WithVariableDevice(config.variables_device());
  for (int i = 0; i < config.num_clones(); ++i) {
    Clone clone;
    clone.index = i;
    ASSIGN_OR_RETURN(const std::string scope, config.clone_scope(i));
    ASSIGN_OR_RETURN(clone.device, config.clone_device(i));
    const auto names = builder.WithNameScope(scope);
    clone.scope = names.name();
    const auto device = builder.WithDevice(clone.device);
    const auto in_clone = builder.WithClone(i, config.num_clones());
    const auto reuse = builder.ReenterVariableScope(i == 0 ? Reuse::kInherit : Reuse::kReuse);
    clone.outputs = model_fn(builder);
    if (!builder.status().ok()) return builder.status();
    clones.push_back(std::move(clone));
  }
  builder.FinishClones();
  if (!builder.status().ok()) return builder.status();
  return clones;
}

CloneLoss GatherCloneLoss(GraphBuilder& builder, const Clone& clone, int num_clones,
                          const std::vector<Output>& regularization_losses,
                          std::vector<ScalarSummary>* summaries) {
  CloneLoss loss;
  const auto device = builder.WithDevice(clone.device);
  const auto in_clone = builder.WithClone(clone.index);
  loss.data = AddSum(builder, builder.graph().Collection(kLosses, clone.scope), "clone_loss");
  if (loss.data.valid() && num_clones > 1) {
    loss.data = builder.Op(
        "Scale", {loss.data},
        {{"factor", 1.0 / num_clones}, {"clone_index", static_cast<int64_t>(clone.index)}},
        "scaled_clone_loss");
  }
  loss.regularization = AddSum(builder, regularization_losses, "regularization_loss");
  loss.total = AddSum(builder, {loss.data, loss.regularization}, "sum_loss");
  Summarize(summaries, absl::StrCat(clone.scope, "clone_loss"), loss.data);
  Summarize(summaries, "regularization_loss", loss.regularization);
  return loss;
}

absl::StatusOr<OptimizedClones> OptimizeClones(GraphBuilder& builder,
                                               const std::vector<Clone>& clones,
                                               const OptimizeClonesOptions& options) {
  OptimizedClones result;
  LossParts parts;
  std::vector<std::vector<GradientAndVariable>> clone_gradients;
  std::vector<Output> regularization =
      options.regularization_losses.value_or(builder.graph().Collection(kRegularizationLosses));
  const std::vector<Output> variables = options.variables.value_or(AllTrained(builder.graph()));
  for (const Clone& clone : clones) {
    const auto scope = builder.WithNameScope(clone.scope);
    const CloneLoss loss =
        GatherCloneLoss(builder, clone, static_cast<int>(clones.size()), regularization,
                        clone.index == 0 ? &result.summaries : nullptr);
    regularization.clear();
    if (!loss.total.valid()) continue;
    parts.Add(loss);
    if (builder.has_clone_sums()) continue;
    ASSIGN_OR_RETURN(std::vector<GradientAndVariable> gradients,
                     OptimizeClone(builder, clone, loss, variables));
    clone_gradients.push_back(std::move(gradients));
  }
  if (!builder.status().ok()) return builder.status();
  if (parts.totals.empty()) {
    return absl::InvalidArgumentError(
        "no clone has a loss; add one to the losses collection in the model function");
  }
  result.total_loss = AddSum(builder, parts.totals, "total_loss");
  result.data_loss = AddSum(builder, parts.data, "data_loss");
  result.regularization_loss = parts.regularization;
  if (builder.has_clone_sums()) {
    ASSIGN_OR_RETURN(const auto by_clone, BuildCloneGradients(builder, result.total_loss, variables,
                                                              static_cast<int>(clones.size())));
    for (const std::vector<Output>& gradients : by_clone) {
      clone_gradients.push_back(MakePairs(gradients, variables));
    }
  }
  result.gradients = SumClonesGradients(builder, clone_gradients, options.reduce_devices);
  return result;
}

std::vector<GradientAndVariable> SumClonesGradients(
    GraphBuilder& builder, const std::vector<std::vector<GradientAndVariable>>& clone_gradients,
    const std::vector<std::string>& devices) {
  size_t num_variables = clone_gradients.empty() ? 0 : clone_gradients[0].size();
  for (const auto& gradients : clone_gradients) {
    num_variables = std::min(num_variables, gradients.size());
  }
  // Sums are added in the order in which the clones' gradients become final.
  std::vector<std::pair<int, size_t>> order;  // last gradient, variable
  for (size_t v = 0; v < num_variables; ++v) {
    order.emplace_back(-1, v);
    for (const auto& of_clone : clone_gradients) {
      CHECK(of_clone[v].variable == clone_gradients[0][v].variable)
          << "clones list different variables at " << v;
      if (!of_clone[v].gradient.valid()) continue;
      order.back().first = std::max(order.back().first, of_clone[v].gradient.node->id);
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<GradientAndVariable> sums(num_variables);
  std::vector<int64_t> elements(devices.size(), 0);  // summed on each device
  for (const auto& [last, v] : order) {
    std::vector<Output> gradients;
    for (const auto& of_clone : clone_gradients) gradients.push_back(of_clone[v].gradient);
    sums[v].variable = clone_gradients[0][v].variable;
    const auto least = std::min_element(elements.begin(), elements.end());
    const auto device =
        builder.WithDevice(devices.empty() ? "" : devices[least - elements.begin()]);
    if (!devices.empty() && sums[v].variable.shape().IsKnown()) {
      *least += sums[v].variable.shape().num_elements();
    }
    sums[v].gradient =
        AddSum(builder, std::move(gradients), absl::StrCat(sums[v].variable.name(), "/sum_grads"));
  }
  sums.erase(std::remove_if(sums.begin(), sums.end(),
                            [](const GradientAndVariable& sum) { return !sum.gradient.valid(); }),
             sums.end());
  return sums;
}

std::vector<HistogramSummary> AddGradientsSummaries(
    const std::vector<GradientAndVariable>& gradients) {
  std::vector<HistogramSummary> summaries;
  for (const GradientAndVariable& pair : gradients) {
    const std::string name = pair.variable.name();
    if (pair.gradient.valid()) {
      summaries.push_back(
          {absl::StrCat(name, "/gradient"), absl::StrCat(name, "/gradient_norm"), pair.gradient});
    } else {
      LOG(INFO) << "Var " << name << " has no gradient";
    }
  }
  return summaries;
}

absl::StatusOr<DeployedModel> Deploy(const DeploymentConfig& config, GraphBuilder& builder,
                                     const CloneFunction& model_fn,
                                     const v1::OptimizerConfig* optimizer,
                                     bool summarize_gradients) {
  DeployedModel model;
  const std::vector<Output> initial_summaries = builder.graph().Collection(kSummaries);
  ASSIGN_OR_RETURN(model.clones, CreateClones(config, builder, model_fn));
  OptimizedClones optimized;
  const auto device = builder.WithDevice(config.optimizer_device());
  if (optimizer == nullptr) {
    optimized = GatherLosses(builder, model.clones);
  } else {
    RETURN_IF_ERROR(Train(config, builder, optimizer, &optimized, &model));
  }
  model.total_loss = optimized.total_loss;
  model.data_loss = optimized.data_loss;
  model.regularization_loss = optimized.regularization_loss;
  model.correct_count =
      AddSum(builder, builder.graph().Collection(kCorrectCounts), "correct_count");
  AddCollectedSummaries(builder.graph(), model.clones[0].scope, initial_summaries, &model);
  model.summaries.insert(model.summaries.end(), optimized.summaries.begin(),
                         optimized.summaries.end());
  Summarize(&model.summaries, "total_loss", model.total_loss);
  if (summarize_gradients && model.train_op.has_value()) {
    for (HistogramSummary& gradient : AddGradientsSummaries(model.train_op->gradients)) {
      model.histograms.push_back(std::move(gradient));
    }
  }
  if (!builder.status().ok()) return builder.status();
  return model;
}

}  // namespace shoal
