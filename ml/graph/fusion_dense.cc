// Fuses MatMul + Add + activation into Dense, and the gradients of the three into DenseGrad. If a
// DenseGrad computes the gradient of the output of another dense layer, it also applies the
// gradient of the ReLU between them, and the sum for the other layer's bias, while the rows are in
// the cache.
#include <utility>

#include "ml/graph/fusion.h"

namespace shoal {
namespace {

// Returns whether the product is one of two matrices, without a batch.
bool IsPlainProduct(const Plan& plan, const PlanStep& step) {
  return plan.values[step.outputs[0]].spec.shape.rank() == 2 &&
         !step.attributes.GetBool("transpose_a", false) &&
         !step.attributes.GetBool("transpose_b", false);
}

// Returns whether the value is a bias: a scalar, or one number per column.
bool IsBias(const TensorSpec& bias, const TensorSpec& sum) {
  return bias.dtype == sum.dtype &&
         (bias.shape.rank() == 0 || bias.shape == Shape({sum.shape.dim(1)}));
}

// The gradient steps of one Dense; -1 if there is no such step.
struct Backward {
  int activation = -1, bias = -1, weights = -1, input = -1;
  bool is_ambiguous = false;

  void Set(int* slot, int step) {
    is_ambiguous |= *slot >= 0;
    *slot = step;
  }
};

class DenseFusion {
 public:
  DenseFusion(Plan* plan, int device) : fusion_(plan, device) {}
  void Run();

 private:
  void FuseForward(int product);
  void FuseBackward(int dense);
  Backward FindBackward(const PlanStep& dense);
  bool Agrees(const Backward& backward, const PlanStep& dense, int* dy);
  void Replace(const Backward& backward, int dense, int dy);
  void ChainGradients(int later);
  void MoveBias(PlanStep* earlier, int later);

  Fusion fusion_;
};

void DenseFusion::Run() {
  const int num_steps = static_cast<int>(fusion_.plan().steps.size());
  for (int s = 0; s < num_steps; ++s) {
    if (!fusion_.HasOp(s, "MatMul") || fusion_.step(s).gradient_of >= 0) continue;
    if (IsPlainProduct(fusion_.plan(), fusion_.step(s))) FuseForward(s);
  }
  fusion_.Refresh();
  for (int s = 0; s < num_steps; ++s) {
    if (fusion_.HasOp(s, "Dense")) FuseBackward(s);
  }
  fusion_.Refresh();
  for (int s = 0; s < static_cast<int>(fusion_.plan().steps.size()); ++s) {
    if (fusion_.HasOp(s, "DenseGrad")) ChainGradients(s);
  }
}

// The input x of the later layer is the output y of the earlier one, so the later DenseGrad also
// applies the gradient of the earlier layer's ReLU to dx.
void DenseFusion::ChainGradients(int later_index) {
  PlanStep& later = fusion_.step(later_index);
  const int earlier_index = fusion_.OnlyConsumer(later.outputs[0]);
  if (earlier_index < 0 || fusion_.step(earlier_index).op != "DenseGrad") return;
  PlanStep& earlier = fusion_.step(earlier_index);
  if (earlier.inputs[3] != later.outputs[0] || earlier.inputs[2] != later.inputs[0] ||
      earlier.attributes.GetString("activation", "none") != "relu") {
    return;
  }
  later.attributes.Set("input_relu", true);
  earlier.attributes.Set("activation", std::string("none"));
  earlier.inputs[2] = earlier.inputs[3];
  MoveBias(&earlier, later_index);
}

// The later DenseGrad also computes the gradient of the earlier layer's bias, which is the sum of
// its dx. It does not if this is the only gradient needed of the earlier layer, because then no
// step reads dx itself.
void DenseFusion::MoveBias(PlanStep* earlier, int later_index) {
  if (!earlier->attributes.GetBool("has_bias", false) ||
      fusion_.consumers(earlier->outputs[2]).empty() ||
      fusion_.consumers(earlier->outputs[1]).empty()) {
    return;
  }
  const int bias = earlier->outputs[2];
  earlier->outputs.erase(earlier->outputs.begin() + 2);
  if (earlier->outputs.size() == 3) fusion_.plan().values[earlier->outputs[2]].index = 2;
  earlier->attributes.Set("has_bias", false);
  PlanStep& later = fusion_.step(later_index);
  later.attributes.Set("has_input_bias", true);
  later.outputs.push_back(-1);
  fusion_.MoveOutput(bias, later_index, static_cast<int>(later.outputs.size()) - 1);
}

void DenseFusion::FuseForward(int product) {
  PlanStep dense = fusion_.step(product);
  std::vector<int> removed;
  int last = product;
  int next = fusion_.OnlyConsumer(dense.outputs[0]);
  if (next >= 0 && fusion_.step(next).op == "Add") {
    const PlanStep& add = fusion_.step(next);
    const int bias = add.inputs[0] == dense.outputs[0] ? add.inputs[1] : add.inputs[0];
    const std::vector<PlanValue>& values = fusion_.plan().values;
    if (values[add.outputs[0]].spec == values[dense.outputs[0]].spec &&
        IsBias(values[bias].spec, values[dense.outputs[0]].spec)) {
      dense.inputs.push_back(bias);
      removed.push_back(last);
      last = next;
      fusion_.Cover(&dense, add);
      next = fusion_.OnlyConsumer(add.outputs[0]);
    }
  }
  std::string activation = next < 0 ? "" : FindActivation(fusion_.step(next));
  if (!activation.empty() && !IsActivationGradient(fusion_.step(next))) {
    removed.push_back(last);
    last = next;
    fusion_.Cover(&dense, fusion_.step(next));
  } else {
    activation = "none";
  }
  if (last == product) return;
  dense.op = "Dense";
  dense.attributes = {{"activation", activation}};
  dense.outputs = fusion_.step(last).outputs;
  dense.name = fusion_.step(last).name;
  for (int step : removed) fusion_.step(step).is_removed = true;
  fusion_.step(last) = std::move(dense);
}

Backward DenseFusion::FindBackward(const PlanStep& dense) {
  Backward found;
  const int product = dense.covered[0];
  for (int s : fusion_.FindGradients(dense)) {
    const PlanStep& step = fusion_.step(s);
    if (IsActivationGradient(step) && step.inputs[0] == dense.outputs[0]) {
      found.Set(&found.activation, s);
    } else if (step.op == "SumTo") {
      found.Set(&found.bias, s);
    } else if (step.op == "MatMul" && step.gradient_of == product) {
      const bool is_weights = step.attributes.GetBool("transpose_a", false);
      found.Set(is_weights ? &found.weights : &found.input, s);
    }
  }
  return found;
}

// Checks that all gradients read the same value and, if this is the gradient of an activation, that
// no other step reads it.
bool DenseFusion::Agrees(const Backward& backward, const PlanStep& dense, int* dy) {
  if (backward.is_ambiguous || (backward.weights < 0 && backward.input < 0)) return false;
  const bool has_activation = dense.attributes.GetString("activation", "none") != "none";
  if (has_activation != (backward.activation >= 0)) return false;
  const int before = backward.weights >= 0 ? fusion_.step(backward.weights).inputs[1]
                                           : fusion_.step(backward.input).inputs[0];
  // Rounded for the products only: DenseGrad has one dy for the bias and for these.
  if (fusion_.plan().values[before].spec.dtype == DataType::kBfloat16) return false;
  if (backward.weights >= 0 && fusion_.step(backward.weights).inputs[0] != dense.inputs[0]) {
    return false;
  }
  if (backward.input >= 0 && (fusion_.step(backward.input).inputs[0] != before ||
                              fusion_.step(backward.input).inputs[1] != dense.inputs[1])) {
    return false;
  }
  if (backward.bias >= 0 && fusion_.step(backward.bias).inputs[0] != before) return false;
  *dy = before;
  if (!has_activation) return true;
  const PlanStep& activation = fusion_.step(backward.activation);
  const size_t readers = (backward.weights >= 0) + (backward.input >= 0) + (backward.bias >= 0);
  *dy = activation.inputs[1];
  return activation.outputs[0] == before && fusion_.consumers(before).size() == readers;
}

void DenseFusion::FuseBackward(int dense) {
  const Backward backward = FindBackward(fusion_.step(dense));
  int dy = -1;
  if (!Agrees(backward, fusion_.step(dense), &dy)) return;
  Replace(backward, dense, dy);
}

void DenseFusion::Replace(const Backward& backward, int dense_index, int dy) {
  const PlanStep dense = fusion_.step(dense_index);
  const std::string activation = dense.attributes.GetString("activation", "none");
  const bool has_bias = dense.inputs.size() == 3;
  std::vector<PlanValue>& values = fusion_.plan().values;
  const Shape bias_shape = has_bias ? values[dense.inputs[2]].spec.shape : Shape();
  const int replaced = backward.weights >= 0 ? backward.weights : backward.input;
  PlanStep gradient = fusion_.step(replaced);
  gradient.op = "DenseGrad";
  gradient.attributes = {{"activation", activation},
                         {"has_bias", has_bias},
                         {"bias_scalar", has_bias && bias_shape.rank() == 0}};
  // DenseGrad does not read y if there is no activation: naming dy instead lets y's memory go.
  gradient.inputs = {dense.inputs[0], dense.inputs[1], activation == "none" ? dy : dense.outputs[0],
                     dy};
  const int num_outputs = has_bias ? 3 : 2;
  gradient.outputs.assign(num_outputs, -1);
  const int step = static_cast<int>(fusion_.plan().steps.size());
  const int parts[] = {backward.input, backward.weights, backward.bias};
  const TensorSpec specs[] = {values[dense.inputs[0]].spec,
                              values[dense.inputs[1]].spec,
                              {values[dy].spec.dtype, bias_shape}};
  fusion_.plan().steps.push_back(std::move(gradient));
  for (int i = 0; i < num_outputs; ++i) {
    const int value = parts[i] >= 0 ? fusion_.step(parts[i]).outputs[0]
                                    : fusion_.plan().AddValue(specs[i], step, i);
    fusion_.MoveOutput(value, step, i);
    if (parts[i] >= 0) fusion_.step(parts[i]).is_removed = true;
  }
  if (backward.activation >= 0) fusion_.step(backward.activation).is_removed = true;
}

}  // namespace

void FuseDense(Plan* plan, int device) { DenseFusion(plan, device).Run(); }

}  // namespace shoal
