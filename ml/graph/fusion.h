// Helpers of the fusion passes, which look for patterns of neighbouring steps in a plan. Private to
// ml/graph.
#ifndef SHOAL_ML_GRAPH_FUSION_H_
#define SHOAL_ML_GRAPH_FUSION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "ml/graph/plan.h"

namespace shoal {

// A view of one device's steps in a plan. Call Refresh after a change of the plan, so that the
// lists of consumers are current.
class Fusion {
 public:
  Fusion(Plan* plan, int device) : plan_(*plan), device_(device), consumers_(plan->Consumers()) {}

  Plan& plan() { return plan_; }
  PlanStep& step(int index) { return plan_.steps[index]; }
  void Refresh() { consumers_ = plan_.Consumers(); }

  // Returns whether the step is a step of this op on this device that was not removed.
  bool HasOp(int step, absl::string_view op) const {
    return IsHere(plan_.steps[step]) && plan_.steps[step].op == op;
  }
  // Returns the only step that reads the value; -1 if no step or several read it, if it is a fetch,
  // or if the step is on another device.
  int OnlyConsumer(int value) const;
  const std::vector<int>& consumers(int value) const { return consumers_[value]; }

  // Returns the step that computes the value if it is a step of this op on this device; otherwise
  // -1.
  int FindProducer(int value, absl::string_view op) const;
  // Returns the steps of this device that compute gradients of a forward node that `step` covers.
  std::vector<int> FindGradients(const PlanStep& step) const;
  // Makes the value the output number `new_index` of `new_step`.
  void MoveOutput(int value, int new_step, int new_index);
  // Notes that `step` now computes the forward nodes that `removed` computed (PlanStep::covered).
  // It does not remove `removed` from the plan.
  void Cover(PlanStep* step, const PlanStep& removed);

 private:
  bool IsHere(const PlanStep& step) const { return !step.is_removed && step.device == device_; }

  Plan& plan_;
  const int device_;
  std::vector<std::vector<int>> consumers_;
};

// Returns "relu", "sigmoid" or "tanh" for the ops Relu, Sigmoid, Tanh and their gradients, "relu6"
// for a Clip from 0 to 6 and its gradient, and "" for all others.
std::string FindActivation(const PlanStep& step);
bool IsActivationGradient(const PlanStep& step);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_FUSION_H_
