#include "ml/graph/gradients.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
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
  // The same by clone.
  std::vector<std::vector<Output>> CloneGradients(int num_clones);

 private:
  // Returns the parts that flowed back to the output; null if there are none.
  std::vector<Output>* PartsOf(Output output);
  // The variables, those first whose last part is made first.
  std::vector<size_t> OrderOfVariables();
  // The sum of what flowed back to the output; not valid if nothing did.
  Output GradientOf(Output output);
  bool IsBetween(const Node& node) const { return wanted_[node.id] && IsFloatingOutput(node); }
  static bool IsFloatingOutput(const Node& node) { return IsFloating(node.outputs[0].dtype); }
  void MarkWanted();
  void Backward(const Node& node);

  GraphBuilder& builder_;
  const Output loss_;
  const absl::Span<const Output> variables_;
  // Indexed by node: it depends on a variable.
  std::vector<bool> wanted_;
  // The parts that flowed back, by node and output.
  std::vector<std::vector<std::vector<Output>>> flowed_;
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

std::vector<Output>* Differentiator::PartsOf(Output output) {
  if (output.node->id > loss_.node->id) return nullptr;
  std::vector<std::vector<Output>>& of_node = flowed_[output.node->id];
  if (output.index >= static_cast<int>(of_node.size()) || of_node[output.index].empty()) {
    return nullptr;
  }
  return &of_node[output.index];
}

// Parts of several clones are added in the order of the clones.
Output Differentiator::GradientOf(Output output) {
  std::vector<Output>* parts = PartsOf(output);
  if (parts == nullptr) return {};
  if (parts->size() > 1) {
    // The sum is where the node is, for its clone; that of a variable is where the builder is.
    const Node& node = *output.node;
    const bool is_variable = node.variable_index >= 0;
    std::stable_sort(parts->begin(), parts->end(), [](const Output& a, const Output& b) {
      return a.node->clone_index < b.node->clone_index;
    });
    const auto device = builder_.WithDevice(is_variable ? "" : node.device.ToString());
    const auto in_clone =
        builder_.WithClone(node.clone_index >= 0 ? node.clone_index : builder_.clone_index());
    *parts = {ops::AddN(builder_, *parts)};
  }
  return parts->front();
}

std::vector<size_t> Differentiator::OrderOfVariables() {
  std::vector<std::pair<int, size_t>> order;  // last part, variable
  for (size_t v = 0; v < variables_.size(); ++v) {
    int last = -1;
    if (const std::vector<Output>* parts = PartsOf(variables_[v])) {
      for (const Output& part : *parts) last = std::max(last, part.node->id);
    }
    order.emplace_back(last, v);
  }
  std::sort(order.begin(), order.end());
  std::vector<size_t> variables;
  for (const auto& [last, v] : order) variables.push_back(v);
  return variables;
}

std::vector<Output> Differentiator::Gradients() {
  std::vector<Output> gradients(variables_.size());
  for (size_t v : OrderOfVariables()) gradients[v] = GradientOf(variables_[v]);
  return gradients;
}

std::vector<std::vector<Output>> Differentiator::CloneGradients(int num_clones) {
  std::vector<std::vector<Output>> gradients(num_clones + 1,
                                             std::vector<Output>(variables_.size()));
  for (size_t v : OrderOfVariables()) {
    const std::vector<Output>* parts = PartsOf(variables_[v]);
    if (parts == nullptr) continue;
    std::vector<std::vector<Output>> by_clone(num_clones + 1);
    for (const Output& part : *parts) {
      const int clone = part.node->clone_index;
      by_clone[clone < 0 || clone >= num_clones ? num_clones : clone].push_back(part);
    }
    for (int clone = 0; clone <= num_clones; ++clone) {
      if (by_clone[clone].empty()) continue;
      const auto device = builder_.WithDevice(by_clone[clone][0].node->device.ToString());
      const auto in_clone = builder_.WithClone(clone < num_clones ? clone : -1);
      gradients[clone][v] = ops::AddN(builder_, std::move(by_clone[clone]));
    }
  }
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
  // The gradient is where the node itself is, for the same clone.
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

absl::Status CheckLoss(const GraphBuilder& builder, Output loss) {
  if (!builder.status().ok()) return builder.status();
  if (loss.valid() && loss.shape().rank() == 0 && IsFloating(loss.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the loss must be one floating-point number, is ",
      loss.valid() ? absl::StrCat(loss.name(), " ", loss.spec().ToString()) : "absent"));
}

}  // namespace

absl::StatusOr<std::vector<Output>> BuildGradients(GraphBuilder& builder, Output loss,
                                                   absl::Span<const Output> variables) {
  RETURN_IF_ERROR(CheckLoss(builder, loss));
  const auto scope = builder.WithNameScope("gradients");
  Differentiator differentiator(builder, loss, variables);
  differentiator.Run();
  std::vector<Output> gradients = differentiator.Gradients();
  if (!builder.status().ok()) return builder.status();
  return gradients;
}

absl::StatusOr<std::vector<std::vector<Output>>> BuildCloneGradients(
    GraphBuilder& builder, Output loss, absl::Span<const Output> variables, int num_clones) {
  RETURN_IF_ERROR(CheckLoss(builder, loss));
  const auto scope = builder.WithNameScope("gradients");
  Differentiator differentiator(builder, loss, variables);
  differentiator.Run();
  std::vector<std::vector<Output>> gradients = differentiator.CloneGradients(num_clones);
  if (!builder.status().ok()) return builder.status();
  return gradients;
}

}  // namespace shoal
