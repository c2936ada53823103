// Helpers that the fusion passes share: looking at a plan's neighbourhoods. Private to ml/graph.
#ifndef SHOAL_ML_GRAPH_FUSION_H_
#define SHOAL_ML_GRAPH_FUSION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "ml/graph/plan.h"

namespace shoal {

// A view of one device's steps in the plan, whose consumers are kept current by Refresh.
class Fusion {
 public:
  Fusion(Plan* plan, int device) : plan_(*plan), device_(device), consumers_(plan->Consumers()) {}

  Plan& plan() { return plan_; }
  PlanStep& step(int index) { return plan_.steps[index]; }
  void Refresh() { consumers_ = plan_.Consumers(); }

  // A live step of the op, here.
  bool HasOp(int step, absl::string_view op) const {
    return IsHere(plan_.steps[step]) && plan_.steps[step].op == op;
  }
  // The step that alone reads the value; -1 if there are none, several, a fetch, or one elsewhere.
  int OnlyConsumer(int value) const;
  const std::vector<int>& consumers(int value) const { return consumers_[value]; }

  // The live step of the op that computes the value; -1 if another kind of step does.
  int ProducerOf(int value, absl::string_view op) const;
  // Live steps that differentiate one of the step's forward nodes.
  std::vector<int> GradientsOf(const PlanStep& step) const;
  // The step's output becomes another step's.
  void MoveOutput(int value, int new_step, int new_index);
  void Cover(PlanStep* step, const PlanStep& removed);

 private:
  bool IsHere(const PlanStep& step) const { return !step.is_removed && step.device == device_; }

  Plan& plan_;
  const int device_;
  std::vector<std::vector<int>> consumers_;
};

// "relu", "sigmoid" or "tanh" for the ops Relu, Sigmoid, Tanh and their gradients, "relu6" for a
// Clip from 0 to 6 and its gradient; else "".
std::string ActivationOf(const PlanStep& step);
bool IsActivationGradient(const PlanStep& step);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_FUSION_H_
