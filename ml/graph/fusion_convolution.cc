// Relu + MaxPool -> MaxPool(relu), Conv + activation -> Conv(activation), Conv + MaxPool ->
// ConvPool, each together with its gradients.
#include <utility>

#include "ml/graph/fusion.h"

namespace shoal {
namespace {

// A convolution's gradient reads y only to undo an activation.
void ForgetUnreadOutputs(Plan* plan) {
  for (PlanStep& step : plan->steps) {
    if (step.op == "ConvGrad" && step.attributes.GetString("activation", "none") == "none") {
      step.inputs[2] = step.inputs[3];
    }
  }
}

// Returns whether only the pool and, at most, the ReluGrad behind the pool's gradient read relu's
// output. Without a backward pass, *pool_gradient and *relu_gradient are -1.
bool FindPoolGradient(Fusion& fusion, const PlanStep& relu, const PlanStep& pool,
                      int* pool_gradient, int* relu_gradient) {
  *pool_gradient = *relu_gradient = -1;
  const std::vector<int>& readers = fusion.consumers(relu.outputs[0]);
  if (readers.size() == 1) return true;
  if (readers.size() != 2 || readers[1] < 0) return false;
  const PlanStep& gradient = fusion.step(readers[1]);
  if (!fusion.HasOp(readers[1], "ReluGrad") || gradient.inputs[0] != relu.outputs[0]) return false;
  const int producer = fusion.FindProducer(gradient.inputs[1], "MaxPoolGrad");
  if (producer < 0 || fusion.step(producer).inputs[0] != pool.outputs[1]) return false;
  *pool_gradient = producer;
  *relu_gradient = readers[1];
  return fusion.OnlyConsumer(gradient.inputs[1]) == readers[1];
}

void FuseReluIntoPool(Fusion& fusion, int relu_index) {
  const PlanStep relu = fusion.step(relu_index);
  const std::vector<int>& readers = fusion.consumers(relu.outputs[0]);
  if (readers.empty() || readers[0] < 0) return;
  const int pool_index = readers[0];
  if (!fusion.HasOp(pool_index, "MaxPool")) return;
  int pool_gradient = -1;
  int relu_gradient = -1;
  if (!FindPoolGradient(fusion, relu, fusion.step(pool_index), &pool_gradient, &relu_gradient)) {
    return;
  }
  PlanStep& pool = fusion.step(pool_index);
  pool.inputs[0] = relu.inputs[0];
  pool.attributes.Set("relu", true);
  fusion.Cover(&pool, relu);
  fusion.step(relu_index).is_removed = true;
  if (pool_gradient >= 0) {
    fusion.step(pool_gradient).attributes.Set("relu", true);
    fusion.step(relu_gradient).is_removed = true;
    fusion.MoveOutput(fusion.step(relu_gradient).outputs[0], pool_gradient, 0);
  }
  fusion.Refresh();
}

// Returns the only ConvGrad of the step; -1 if there is none, -2 if there are several.
int FindConvGradient(Fusion& fusion, const PlanStep& convolution) {
  int found = -1;
  for (int s : fusion.FindGradients(convolution)) {
    if (fusion.step(s).op != "ConvGrad") continue;
    if (found >= 0) return -2;
    found = s;
  }
  return found;
}

void FuseActivation(Fusion& fusion, int index) {
  const int next = fusion.OnlyConsumer(fusion.step(index).outputs[0]);
  if (next < 0) return;
  const PlanStep activation = fusion.step(next);
  const std::string name = FindActivation(activation);
  const int gradient = FindConvGradient(fusion, fusion.step(index));
  if (name.empty() || IsActivationGradient(activation) || gradient == -2) return;
  PlanStep& convolution = fusion.step(index);
  convolution.attributes.Set("activation", name);
  fusion.Cover(&convolution, activation);
  fusion.step(next).is_removed = true;
  fusion.MoveOutput(activation.outputs[0], index, 0);
  if (gradient >= 0) {
    PlanStep& conv_grad = fusion.step(gradient);
    const int undo = fusion.FindProducer(conv_grad.inputs[3], activation.op + "Grad");
    if (undo >= 0 && fusion.step(undo).inputs[0] == activation.outputs[0] &&
        fusion.OnlyConsumer(conv_grad.inputs[3]) == gradient) {
      conv_grad.attributes.Set("activation", name);
      conv_grad.inputs[2] = activation.outputs[0];
      conv_grad.inputs[3] = fusion.step(undo).inputs[1];
      fusion.step(undo).is_removed = true;
    }
  }
  fusion.Refresh();
}

bool IsPlainConvolution(const PlanStep& step) {
  return step.inputs.size() == 3 && step.attributes.GetString("activation", "none") == "none" &&
         step.attributes.GetInt("group", 1) == 1 &&
         step.attributes.GetInts("dilations", {1, 1}) == std::vector<int64_t>{1, 1};
}

Attributes ConvPoolAttributes(const PlanStep& convolution, const PlanStep& pool) {
  Attributes attributes = convolution.attributes;
  attributes.Set("pool_kernel_shape", pool.attributes.GetInts("kernel_shape", {}));
  attributes.Set("pool_strides", pool.attributes.GetInts("strides", {1, 1}));
  attributes.Set("relu", pool.attributes.GetBool("relu", false));
  return attributes;
}

void FusePool(Fusion& fusion, int index) {
  const int pool_index = fusion.OnlyConsumer(fusion.step(index).outputs[0]);
  if (pool_index < 0 || !fusion.HasOp(pool_index, "MaxPool")) return;
  const PlanStep pool = fusion.step(pool_index);
  const std::vector<int64_t> no_pads = {0, 0, 0, 0};
  if (pool.attributes.GetInts("pads", no_pads) != no_pads) return;
  const int gradient = FindConvGradient(fusion, fusion.step(index));
  if (gradient == -2) return;
  const Attributes attributes = ConvPoolAttributes(fusion.step(index), pool);
  if (gradient >= 0) {
    const int dy = fusion.step(gradient).inputs[3];
    const int pool_gradient = fusion.FindProducer(dy, "MaxPoolGrad");
    if (pool_gradient < 0 || fusion.step(pool_gradient).inputs[0] != pool.outputs[1] ||
        fusion.OnlyConsumer(dy) != gradient) {
      return;
    }
    PlanStep& conv_grad = fusion.step(gradient);
    conv_grad.op = "ConvPoolGrad";
    conv_grad.attributes = attributes;
    conv_grad.inputs[2] = pool.outputs[1];
    conv_grad.inputs[3] = fusion.step(pool_gradient).inputs[1];
    fusion.step(pool_gradient).is_removed = true;
  }
  PlanStep& convolution = fusion.step(index);
  convolution.op = "ConvPool";
  convolution.attributes = attributes;
  convolution.outputs = {-1, -1};
  fusion.Cover(&convolution, pool);
  fusion.step(pool_index).is_removed = true;
  for (int i = 0; i < 2; ++i) fusion.MoveOutput(pool.outputs[i], index, i);
  fusion.Refresh();
}

}  // namespace

void FusePooling(Plan* plan, int device) {
  Fusion fusion(plan, device);
  for (int s = 0; s < static_cast<int>(plan->steps.size()); ++s) {
    if (fusion.HasOp(s, "Relu")) FuseReluIntoPool(fusion, s);
  }
}

void FuseConvolutionPooling(Plan* plan, int device) {
  ForgetUnreadOutputs(plan);
  Fusion fusion(plan, device);
  for (int s = 0; s < static_cast<int>(plan->steps.size()); ++s) {
    if (fusion.HasOp(s, "Conv") && IsPlainConvolution(plan->steps[s])) FusePool(fusion, s);
  }
}

void FuseConvolutionActivation(Plan* plan, int device) {
  ForgetUnreadOutputs(plan);
  Fusion fusion(plan, device);
  for (int s = 0; s < static_cast<int>(plan->steps.size()); ++s) {
    if (fusion.HasOp(s, "Conv")) FuseActivation(fusion, s);
  }
}

}  // namespace shoal
