// Chooses the layout nChw16c for images between the first convolution and the last pool, and adds a
// ReorderLayout where a step needs another layout than that of its input.
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "ml/graph/plan.h"

namespace shoal {
namespace {

// The gradient of the weights, output 1, stays plain like the weights.
bool GivesWeightGradient(const PlanStep& step) {
  return step.op == "ConvGrad" || step.op == "ConvPoolGrad" || step.op == "ConvBatchNormGrad";
}

// Weights are not images, even if a step computes them (rounded ones, for example) and their second
// dimension would make blocks. The gradient of the weights is not an image either.
bool IsImageInput(const PlanStep& step, size_t index) {
  const bool has_weights = GivesWeightGradient(step) || step.op == "Conv" ||
                           step.op == "ConvTranspose" || step.op == "ConvPool";
  return !has_weights || index != 1;
}

bool IsImageOutput(const PlanStep& step, size_t index) {
  return !GivesWeightGradient(step) || index == 0;
}

class LayoutAssignment {
 public:
  LayoutAssignment(const std::vector<LayoutSupport>& supports_layout, Plan* plan)
      : supports_layout_(supports_layout), plan_(*plan) {}
  void Run();

 private:
  bool IsBlockable(int value) const;
  bool CanBeBlocked(const PlanStep& step) const;
  bool WantsBlocked(const PlanStep& step) const;
  int InLayout(int value, Layout layout, int reader);

  const std::vector<LayoutSupport>& supports_layout_;  // by device
  Plan& plan_;
  std::map<std::pair<int, Layout>, int> reordered_;  // (value, layout) -> value in that layout
};

bool LayoutAssignment::IsBlockable(int value) const {
  const Shape& shape = plan_.values[value].spec.shape;
  return plan_.values[value].source == ValueSource::kStep && shape.rank() == 4 &&
         shape.dim(1) > 0 && shape.dim(1) % 16 == 0;
}

// Returns whether all images that the step reads or writes can be blocked at the same time.
bool LayoutAssignment::CanBeBlocked(const PlanStep& step) const {
  const LayoutSupport& supports_layout = supports_layout_[step.device];
  if (!supports_layout) return false;
  bool any = false;
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const int value = step.outputs[i];
    if (!IsBlockable(value) || !IsImageOutput(step, i)) continue;
    if (!supports_layout(step.op, step.attributes, Port::kOutput, static_cast<int>(i),
                         Layout::kBlocked16)) {
      return false;
    }
    any = true;
  }
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (!IsBlockable(step.inputs[i]) || !IsImageInput(step, i)) continue;
    if (!supports_layout(step.op, step.attributes, Port::kInput, static_cast<int>(i),
                         Layout::kBlocked16)) {
      return false;
    }
    any = true;
  }
  return any;
}

bool LayoutAssignment::WantsBlocked(const PlanStep& step) const {
  if (IsAlias(step) || !CanBeBlocked(step)) return false;
  for (const char* op :
       {"Conv", "ConvGrad", "ConvBatchNormGrad", "ConvTranspose", "ConvPool", "ConvPoolGrad",
        "MaxPool", "MaxPoolGrad", "AveragePool", "AveragePoolGrad"}) {
    if (step.op == op) return true;
  }
  for (int value : step.inputs) {
    if (plan_.values[value].spec.layout == Layout::kBlocked16) return true;
  }
  return false;
}

int LayoutAssignment::InLayout(int value, Layout layout, int reader) {
  if (plan_.values[value].spec.layout == layout) return value;
  const auto known = reordered_.find({value, layout});
  if (known != reordered_.end()) return known->second;
  PlanStep reorder;
  // On a device that knows layouts: the reader's, else that which chose the blocked one.
  const bool is_at_reader = reader >= 0 && supports_layout_[plan_.steps[reader].device];
  const PlanStep& near = plan_.steps[is_at_reader ? reader : plan_.values[value].producer];
  reorder.name = absl::StrCat(near.name, "/ReorderLayout");
  reorder.op = "ReorderLayout";
  reorder.inputs = {value};
  reorder.device = near.device;
  reorder.clone_index = near.clone_index;
  reorder.node_id = near.node_id;
  TensorSpec spec = plan_.values[value].spec;
  spec.layout = layout;
  const int result = plan_.AddValue(spec, static_cast<int>(plan_.steps.size()), 0);
  reorder.outputs = {result};
  plan_.steps.push_back(std::move(reorder));
  reordered_[{value, layout}] = result;
  return result;
}

void LayoutAssignment::Run() {
  // Producers before readers: fused steps may stand after their readers in the list.
  for (int s : DependenceOrder(plan_)) {
    const Layout layout = WantsBlocked(plan_.steps[s]) ? Layout::kBlocked16 : Layout::kPlain;
    for (size_t i = 0; i < plan_.steps[s].inputs.size(); ++i) {
      const int value = plan_.steps[s].inputs[i];
      const bool follows = IsBlockable(value) && IsImageInput(plan_.steps[s], i);
      const int input = InLayout(value, follows ? layout : Layout::kPlain, s);
      plan_.steps[s].inputs[i] = input;
    }
    for (size_t i = 0; i < plan_.steps[s].outputs.size(); ++i) {
      const int value = plan_.steps[s].outputs[i];
      if (IsBlockable(value) && IsImageOutput(plan_.steps[s], i)) {
        plan_.values[value].spec.layout = layout;
      }
    }
  }
  for (int& fetch : plan_.fetches) fetch = InLayout(fetch, Layout::kPlain, -1);
}

}  // namespace

void AssignLayouts(const std::vector<LayoutSupport>& supports_layout, Plan* plan) {
  LayoutAssignment(supports_layout, plan).Run();
}

}  // namespace shoal
