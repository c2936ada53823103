#include "ml/graph/gradients.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "ml/graph/op_definition.h"
#include "ml/graph/ops.h"

namespace shoal {
namespace {

class Differentiator {
 public:
  Differentiator(GraphBuilder& builder, Output loss, absl::Span<const Output> variables)
      : builder_(builder), loss_(loss), variables_(variables) {}

  void Run();
  // The gradients of the variables. Sums are added in the order in which their parts become final.
  std::vector<Output> Gradients();

 private:
  // The sum of what flowed back to the output; not valid if nothing did.
  Output GradientOf(Output output);
  // The last node that flows back to the output; -1 if none does.
  int LastPartOf(Output output) const;
  bool IsBetween(const Node& node) const { return wanted_[node.id] && IsFloatingOutput(node); }
  static bool IsFloatingOutput(const Node& node) { return IsFloating(node.outputs[0].dtype); }
  void MarkWanted();
  void Backward(const Node& node);

  GraphBuilder& builder_;
  const Output loss_;
  const absl::Span<const Output> variables_;
  std::vector<bool> wanted_;                              // by node: depends on a variable
  std::vector<std::vector<std::vector<Output>>> flowed_;  // by node, output: what flowed back
};

void Differentiator::MarkWanted() {
  wanted_.assign(loss_.node->id + 1, false);
  for (const Output& variable : variables_) {
    if (variable.node->id <= loss_.node->id) wanted_[variable.node->id] = true;
  }
  for (int id = 0; id <= loss_.node->id; ++id) {
    const Node& node = *builder_.graph().nodes()[id];
    const OpDefinition* op = FindOp(node.op);
    for (size_t i = 0; i < node.inputs.size() && !wanted_[id]; ++i) {
      const bool shape_only =
          op != nullptr && ((op->shape_only_inputs >> std::min<size_t>(i, 31)) & 1);
      wanted_[id] = !shape_only && wanted_[node.inputs[i].node->id];
    }
  }
}

Output Differentiator::GradientOf(Output output) {
  if (output.node->id > loss_.node->id) return {};
  std::vector<std::vector<Output>>& of_node = flowed_[output.node->id];
  if (output.index >= static_cast<int>(of_node.size())) return {};
  std::vector<Output>& parts = of_node[output.index];
  if (parts.size() > 1) {
    // Of what belongs to a clone: where that is, for that clone.
    const Node& node = *output.node;
    const bool is_of_clone = node.clone_index >= 0;
    const auto device = builder_.WithDevice(is_of_clone ? node.device.ToString() : "");
    const auto in_clone =
        builder_.WithClone(is_of_clone ? node.clone_index : builder_.clone_index());
    parts = {ops::AddN(builder_, parts)};
  }
  return parts.empty() ? Output{} : parts[0];
}

int Differentiator::LastPartOf(Output output) const {
  if (output.node->id > loss_.node->id) return -1;
  const std::vector<std::vector<Output>>& of_node = flowed_[output.node->id];
  if (output.index >= static_cast<int>(of_node.size())) return -1;
  int last = -1;
  for (const Output& part : of_node[output.index]) last = std::max(last, part.node->id);
  return last;
}

std::vector<Output> Differentiator::Gradients() {
  std::vector<std::pair<int, size_t>> order;  // last part, variable
  for (size_t v = 0; v < variables_.size(); ++v) order.emplace_back(LastPartOf(variables_[v]), v);
  std::sort(order.begin(), order.end());
  std::vector<Output> gradients(variables_.size());
  for (const auto& [last, v] : order) gradients[v] = GradientOf(variables_[v]);
  return gradients;
}

void Differentiator::Backward(const Node& node) {
  const OpDefinition* op = FindOp(node.op);
  if (op == nullptr || op->gradient == nullptr || flowed_[node.id].empty()) return;
  std::vector<Output> output_gradients;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    output_gradients.push_back(GradientOf({&node, static_cast<int>(i)}));
  }
  std::vector<Output> input_gradients(node.inputs.size());
  const auto scope = builder_.WithNameScope(absl::StrCat(node.name, "_grad"));
  // Where the node itself is, for the clone it is for.
  const auto device = builder_.WithDevice(node.device.ToString());
  const auto in_clone =
      builder_.WithClone(node.clone_index >= 0 ? node.clone_index : builder_.clone_index());
  const auto gradient_of = builder_.WithGradientOf(&node);
  op->gradient({builder_, node, output_gradients}, &input_gradients);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Output& input = node.inputs[i];
    if (!input_gradients[i].valid() || !IsBetween(*input.node)) continue;
    std::vector<std::vector<Output>>& flowed = flowed_[input.node->id];
    flowed.resize(input.node->outputs.size());
    flowed[input.index].push_back(input_gradients[i]);
  }
}

void Differentiator::Run() {
  MarkWanted();
  flowed_.resize(loss_.node->id + 1);
  if (!wanted_[loss_.node->id]) return;
  flowed_[loss_.node->id].resize(loss_.node->outputs.size());
  flowed_[loss_.node->id][loss_.index] = {ops::Constant(builder_, 1.0, loss_.dtype())};
  // The order of creation is one of dependence. Variables' own gradients are complete at the end.
  for (int id = loss_.node->id; id >= 0 && builder_.status().ok(); --id) {
    if (wanted_[id]) Backward(*builder_.graph().nodes()[id]);
  }
}

}  // namespace

absl::StatusOr<std::vector<Output>> BuildGradients(GraphBuilder& builder, Output loss,
                                                   absl::Span<const Output> variables) {
  if (!builder.status().ok()) return builder.status();
  if (!loss.valid() || loss.shape().rank() != 0 || !IsFloating(loss.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the loss must be one floating-point number, is ",
        loss.valid() ? absl::StrCat(loss.name(), " ", loss.spec().ToString()) : "absent"));
  }
  const auto scope = builder.WithNameScope("gradients");
  Differentiator differentiator(builder, loss, variables);
  differentiator.Run();
  std::vector<Output> gradients = differentiator.Gradients();
  if (!builder.status().ok()) return builder.status();
  return gradients;
}

}  // namespace shoal
