#include "worker/replica/placement_lines.h"

#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal {
namespace {

// Adds lines with the devices of each variable's gradients: one for each term of the sum over the
// clones and one for the sum. With one clone there is only the gradient itself.
void AddGradientLines(const TrainOp& train_op,
                      const std::function<std::string(const Node& node)>& device_of,
                      std::vector<std::string>* lines) {
  for (const GradientAndVariable& pair : train_op.gradients) {
    const Node& sum = *pair.gradient.node;
    const bool is_sum = sum.clone_index < 0;
    for (const Output& part : is_sum ? sum.inputs : std::vector<Output>{pair.gradient}) {
      lines->push_back(absl::StrCat("gradient ", part.name(), " of ", pair.variable.name(), " on ",
                                    device_of(*part.node)));
    }
    if (!is_sum) continue;
    lines->push_back(
        absl::StrCat("gradients of ", pair.variable.name(), " summed on ", device_of(sum)));
  }
}

}  // namespace

std::vector<std::string> PlacementLines(const v1::DeploymentOptions& deployment,
                                        const PlacerOptions& placer, const Graph& graph,
                                        const DeployedModel& model,
                                        absl::Span<const v1::VariableSpec> tables) {
  const absl::StatusOr<std::vector<int>> placement = PlaceNodes(graph, placer);
  if (!placement.ok()) return {};
  const auto device_of = [&](const Node& node) {
    const int device = (*placement)[static_cast<size_t>(node.id)];
    return device < 0 ? node.device.ToString() : placer.devices[device].ToString();
  };
  std::vector<std::string> clone_devices(model.clones.size());
  for (const auto& node : graph.nodes()) {
    if (node->clone_index >= 0) clone_devices[node->clone_index] = device_of(*node);
  }
  std::vector<std::string> lines;
  for (const Variable& variable : graph.variables()) {
    const std::string where = deployment.num_ps_tasks() > 0 ? "the parameter servers"
                              : deployment.variables() == "mirrored"
                                  ? absl::StrJoin(clone_devices, ", ")
                                  : device_of(*variable.node);
    lines.push_back(absl::StrCat("variable ", variable.spec.name, " ",
                                 variable.spec.shape.ToString(), " on ", where));
  }
  for (const v1::VariableSpec& table : tables) {
    lines.push_back(absl::StrCat(
        "table ", table.name(), " [", table.shape(0), "], ", table.table().buckets(),
        " buckets on ", deployment.num_ps_tasks() > 0 ? "the parameter servers" : "the host"));
  }
  for (size_t i = 0; i < clone_devices.size(); ++i) {
    lines.push_back(absl::StrCat("clone ", i, " on ", clone_devices[i]));
  }
  if (!deployment.log_device_placement()) return lines;
  AddGradientLines(*model.train_op, device_of, &lines);
  return lines;
}

}  // namespace shoal
