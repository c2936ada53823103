// Fuses a sum of EmbeddingBagGrads, the gradients of several features that share a table, into one
// EmbeddingBagGrad with all bags: instead of writing and adding a matrix for each feature, it adds
// all of them to one.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ml/graph/fusion.h"

namespace shoal {
namespace {

constexpr char kOp[] = "EmbeddingBagGrad";

// Returns whether only the sum uses the gradients that it adds.
bool AddsGradients(const Fusion& fusion, int index, const PlanStep& sum) {
  return sum.op == "AddN" && std::all_of(sum.inputs.begin(), sum.inputs.end(), [&](int value) {
           return fusion.FindProducer(value, kOp) >= 0 && fusion.OnlyConsumer(value) == index;
         });
}

void AppendAttribute(const PlanStep& gradient, const std::string& name,
                     std::vector<int64_t>* values) {
  const std::vector<int64_t> more = gradient.attributes.GetInts(name, {});
  values->insert(values->end(), more.begin(), more.end());
}

// Makes the sum the gradient of all bags.
void FuseSum(Fusion& fusion, int index) {
  std::vector<int> inputs;
  std::vector<int64_t> mean, weighted;
  for (const int value : fusion.step(index).inputs) {
    PlanStep& gradient = fusion.step(fusion.FindProducer(value, kOp));
    inputs.insert(inputs.end(), gradient.inputs.begin(), gradient.inputs.end());
    AppendAttribute(gradient, "mean", &mean);
    AppendAttribute(gradient, "weighted", &weighted);
    gradient.is_removed = true;
  }
  PlanStep& sum = fusion.step(index);
  sum.op = kOp;
  sum.inputs = std::move(inputs);
  sum.attributes = {{"mean", std::move(mean)}, {"weighted", std::move(weighted)}};
  fusion.Refresh();
}

}  // namespace

void FuseEmbeddingGradients(Plan* plan, int device) {
  Fusion fusion(plan, device);
  for (int s = 0; s < static_cast<int>(plan->steps.size()); ++s) {
    if (fusion.HasOp(s, "AddN") && AddsGradients(fusion, s, plan->steps[s])) FuseSum(fusion, s);
  }
}

}  // namespace shoal
