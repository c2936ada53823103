#include "ml/deploy/parallel_graph.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/graph/gradients.h"
#include "ml/graph/ops.h"

namespace shoal {
namespace {

// Merges one output of all clones: concatenates tensors, and averages scalars weighted by the
// numbers of examples.
Output Merge(GraphBuilder& builder, const std::vector<Clone>& clones, size_t output) {
  if (clones.size() == 1) return clones[0].outputs[output];
  std::vector<Output> parts;
  for (const Clone& clone : clones) {
    const Output part = clone.outputs[output];
    if (part.shape().rank() > 0) {
      parts.push_back(part);
      continue;
    }
    const auto device = builder.WithDevice(clone.device);
    const auto in_clone = builder.WithClone(clone.index);
    parts.push_back(builder.Op("Scale", {part},
                               {{"factor", 1.0 / static_cast<double>(clones.size())},
                                {"clone_index", static_cast<int64_t>(clone.index)}}));
  }
  return clones[0].outputs[output].shape().rank() > 0 ? ops::Concat(builder, std::move(parts), 0)
                                                      : ops::AddN(builder, std::move(parts));
}

absl::Status AddLossAndGradients(const ParallelModelSpec& spec, GraphBuilder& builder,
                                 ParallelGraph* parallel) {
  {
    const auto scope = builder.WithNameScope("targets");
    for (const FieldSpec& target : spec.targets) {
      Shape shape({kUnknownDim});
      for (int64_t dim : target.example.shape.dims()) shape.AddDim(dim);
      parallel->targets.push_back(builder.Placeholder(target.name, target.example.dtype, shape));
    }
  }
  {
    const auto scope = builder.WithNameScope("merged");
    for (size_t o = 0; o < parallel->clones[0].outputs.size(); ++o) {
      parallel->merged.push_back(Merge(builder, parallel->clones, o));
    }
  }
  RETURN_IF_ERROR(builder.status());
  std::vector<Output> parts = {spec.loss(builder, parallel->merged, parallel->targets)};
  for (const Output& part : builder.graph().Collection(kRegularizationLosses)) {
    parts.push_back(part);
  }
  RETURN_IF_ERROR(builder.status());
  if (!parts[0].valid()) return absl::InvalidArgumentError("loss: the function returned none");
  parallel->loss = parts.size() == 1 ? parts[0] : ops::AddN(builder, std::move(parts));

  const std::vector<Output> trainable = builder.graph().Collection(kTrainableVariables);
  ASSIGN_OR_RETURN(const std::vector<Output> gradients,
                   BuildGradients(builder, parallel->loss, trainable));
  bool is_any = false;
  parallel->gradients.resize(builder.graph().variables().size());
  parallel->statistics.resize(builder.graph().variables().size());
  for (size_t i = 0; i < trainable.size(); ++i) {
    parallel->gradients[static_cast<size_t>(trainable[i].node->variable_index)] = gradients[i];
    is_any |= gradients[i].valid();
  }
  if (!is_any) return absl::InvalidArgumentError("loss: it depends on no trainable variable");
  for (const Output& update : builder.graph().Collection(kUpdateOps, parallel->clones[0].scope)) {
    const Variable* variable =
        builder.graph().FindVariable(update.node->attributes.GetString("variable", ""));
    if (variable != nullptr) {
      parallel->statistics[static_cast<size_t>(variable->node->variable_index)] = update;
    }
  }
  return builder.status();
}

}  // namespace

std::vector<int64_t> SplitExamples(int64_t num_examples, int64_t num_clones) {
  std::vector<int64_t> examples;
  for (int64_t c = 0; c < num_clones; ++c) {
    examples.push_back(num_examples / num_clones + (c < num_examples % num_clones ? 1 : 0));
  }
  return examples;
}

absl::StatusOr<ParallelGraph> BuildParallelGraph(const ParallelModelSpec& spec,
                                                 const std::vector<std::string>& devices,
                                                 bool is_training) {
  DeploymentConfigOptions deployment;
  deployment.num_clones = static_cast<int>(devices.size());
  deployment.clone_devices = devices;
  ASSIGN_OR_RETURN(const DeploymentConfig config, DeploymentConfig::Create(std::move(deployment)));
  ParallelGraph parallel;
  parallel.graph = std::make_unique<Graph>();
  parallel.queue = std::make_unique<InputQueue>(spec.inputs);
  GraphBuilder builder(parallel.graph.get());
  ASSIGN_OR_RETURN(parallel.clones, CreateClones(config, builder, [&](GraphBuilder& clone_builder) {
                     return spec.model(clone_builder, parallel.queue->Dequeue(clone_builder),
                                       is_training);
                   }));
  for (const Clone& clone : parallel.clones) {
    if (clone.outputs.empty() || clone.outputs.size() != parallel.clones[0].outputs.size()) {
      return absl::InvalidArgumentError(
          "model: each copy must have the same outputs, at least one");
    }
  }
  if (!is_training) return parallel;
  // Nodes that belong to no clone are on the first one's device, so that no other has to wake up.
  const auto device = builder.WithDevice(parallel.clones[0].device);
  RETURN_IF_ERROR(AddLossAndGradients(spec, builder, &parallel));
  return parallel;
}

}  // namespace shoal
