// Fuses BatchNorm + Add of another value into BatchNorm with a residual; BatchNorm + activation,
// together with its gradient, into BatchNorm with an activation; and BatchNormGrad + ConvGrad into
// ConvBatchNormGrad.
#include <string>
#include <utility>
#include <vector>

#include "ml/graph/fusion.h"

namespace shoal {
namespace {

bool HasNoActivation(const PlanStep& step) {
  return step.attributes.GetString("activation", "none") == "none";
}

// Returns the only BatchNormGrad of the step; -1 if there is none, -2 if there are several.
int FindNormGradient(const Fusion& fusion, const Plan& plan, const PlanStep& norm) {
  int found = -1;
  for (int s : fusion.FindGradients(norm)) {
    if (plan.steps[s].op != "BatchNormGrad") continue;
    if (found >= 0) return -2;
    found = s;
  }
  return found;
}

// Makes the norm compute also what `next` computed from its output, and removes `next`.
void TakeOver(Fusion& fusion, int index, int next) {
  const PlanStep removed = fusion.step(next);
  fusion.Cover(&fusion.step(index), removed);
  fusion.step(next).is_removed = true;
  fusion.MoveOutput(removed.outputs[0], index, 0);
}

// Fuses the sum of two values of the same shape. The backward pass does not change, because both
// values get the gradient of the sum.
void FuseResidual(Fusion& fusion, int index) {
  const int y = fusion.step(index).outputs[0];
  const int next = fusion.OnlyConsumer(y);
  if (next < 0 || fusion.step(index).inputs.size() != 5) return;
  const PlanStep& sum = fusion.step(next);
  if ((sum.op != "Add" && sum.op != "AddN") || sum.inputs.size() != 2) return;
  const int residual = sum.inputs[0] == y ? sum.inputs[1] : sum.inputs[0];
  const Plan& plan = fusion.plan();
  if (residual == y || plan.values[residual].spec != plan.values[y].spec) return;
  fusion.step(index).inputs.push_back(residual);
  TakeOver(fusion, index, next);
  fusion.Refresh();
}

// BatchNormGrad also applies the gradient of the activation, if no other step reads that gradient.
void FuseGradient(Fusion& fusion, int index, const PlanStep& activation, const std::string& name) {
  const PlanStep& norm = fusion.step(index);
  const int gradient = FindNormGradient(fusion, fusion.plan(), norm);
  if (gradient < 0 || norm.inputs.size() != 5) return;
  PlanStep& norm_grad = fusion.step(gradient);
  const int undo = fusion.FindProducer(norm_grad.inputs[4], activation.op + "Grad");
  if (undo < 0 || fusion.step(undo).inputs[0] != activation.outputs[0] ||
      fusion.OnlyConsumer(norm_grad.inputs[4]) != gradient) {
    return;
  }
  norm_grad.attributes.Set("activation", name);
  norm_grad.inputs[4] = fusion.step(undo).inputs[1];
  norm_grad.inputs.push_back(norm.inputs[2]);
  fusion.step(undo).is_removed = true;
}

void FuseActivation(Fusion& fusion, int index) {
  const int next = fusion.OnlyConsumer(fusion.step(index).outputs[0]);
  if (next < 0) return;
  const PlanStep activation = fusion.step(next);
  const std::string name = FindActivation(activation);
  if ((name != "relu" && name != "relu6") || IsActivationGradient(activation)) return;
  FuseGradient(fusion, index, activation, name);
  fusion.step(index).attributes.Set("activation", name);
  TakeOver(fusion, index, next);
  fusion.Refresh();
}

// Returns whether the fusion is worthwhile: the gradient between norm and convolution is larger
// than a core's caches, and that of the weights is small enough to be summed from parts.
bool IsWorthFusing(const Shape& between, const Shape& weights) {
  constexpr int64_t kLeastElements = int64_t{1} << 19;
  return between.rank() == 4 && between.num_elements() >= kLeastElements &&
         weights.num_elements() <= between.num_elements() / between.dim(0) / 4;
}

bool HasBiasGradient(const Fusion& fusion, const PlanStep& convolution) {
  return convolution.outputs.size() > 2 && !fusion.consumers(convolution.outputs[2]).empty();
}

// Fuses a BatchNormGrad whose dx only a ConvGrad reads into ConvBatchNormGrad: x, w, norm's x,
// scale, mean, inv_std, dy (, offset) -> dx, dw, dscale, doffset.
void FuseWithConvolution(Fusion& fusion, int index) {
  const PlanStep norm = fusion.step(index);
  const int next = fusion.OnlyConsumer(norm.outputs[0]);
  if (next < 0 || !fusion.HasOp(next, "ConvGrad")) return;
  PlanStep& convolution = fusion.step(next);
  const std::vector<PlanValue>& values = fusion.plan().values;
  if (convolution.inputs[3] != norm.outputs[0] || HasBiasGradient(fusion, convolution) ||
      convolution.clone_index != norm.clone_index || !HasNoActivation(convolution) ||
      !IsWorthFusing(values[norm.inputs[0]].spec.shape, values[convolution.inputs[1]].spec.shape)) {
    return;
  }
  convolution.op = "ConvBatchNormGrad";
  for (const char* name : {"training", "activation"}) {
    const auto it = norm.attributes.values().find(name);
    if (it != norm.attributes.values().end()) convolution.attributes.Set(name, it->second);
  }
  convolution.inputs = {convolution.inputs[0], convolution.inputs[1], norm.inputs[0],
                        norm.inputs[1],        norm.inputs[2],        norm.inputs[3],
                        norm.inputs[4]};
  if (norm.inputs.size() == 6) convolution.inputs.push_back(norm.inputs[5]);
  fusion.Cover(&convolution, norm);
  fusion.step(index).is_removed = true;
  convolution.outputs.resize(4);
  for (int i = 1; i < 3; ++i) fusion.MoveOutput(norm.outputs[i], next, i + 1);
  fusion.Refresh();
}

}  // namespace

void FuseNormalization(Plan* plan, int device) {
  Fusion fusion(plan, device);
  for (int s = 0; s < static_cast<int>(plan->steps.size()); ++s) {
    if (!fusion.HasOp(s, "BatchNorm") || !HasNoActivation(plan->steps[s])) continue;
    FuseResidual(fusion, s);
    FuseActivation(fusion, s);
  }
}

void FuseNormalizationGradient(Plan* plan, int device) {
  Fusion fusion(plan, device);
  for (int s = 0; s < static_cast<int>(plan->steps.size()); ++s) {
    if (fusion.HasOp(s, "BatchNormGrad")) FuseWithConvolution(fusion, s);
  }
}

}  // namespace shoal
