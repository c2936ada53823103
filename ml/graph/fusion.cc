#include "ml/graph/fusion.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace shoal {

int Fusion::OnlyConsumer(int value) const {
  if (consumers_[value].size() != 1) return -1;
  const int step = consumers_[value][0];
  return step >= 0 && plan_.steps[step].device == device_ ? step : -1;
}

int Fusion::FindProducer(int value, absl::string_view op) const {
  const PlanValue& produced = plan_.values[value];
  if (produced.source != ValueSource::kStep) return -1;
  return HasOp(produced.producer, op) ? produced.producer : -1;
}

std::vector<int> Fusion::FindGradients(const PlanStep& step) const {
  std::vector<int> found;
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& candidate = plan_.steps[s];
    if (IsHere(candidate) && candidate.gradient_of >= 0 &&
        std::count(step.covered.begin(), step.covered.end(), candidate.gradient_of) > 0) {
      found.push_back(static_cast<int>(s));
    }
  }
  return found;
}

void Fusion::MoveOutput(int value, int new_step, int new_index) {
  plan_.values[value].producer = new_step;
  plan_.values[value].index = new_index;
  plan_.steps[new_step].outputs[new_index] = value;
}

void Fusion::Cover(PlanStep* step, const PlanStep& removed) {
  step->covered.insert(step->covered.end(), removed.covered.begin(), removed.covered.end());
}

std::string FindActivation(const PlanStep& step) {
  const absl::string_view forward = absl::StripSuffix(step.op, "Grad");
  if (forward == "Clip") {
    const bool is_relu6 =
        step.attributes.GetDouble("min", -1) == 0 && step.attributes.GetDouble("max", 0) == 6;
    return is_relu6 ? "relu6" : "";
  }
  const bool is_activation = forward == "Relu" || forward == "Sigmoid" || forward == "Tanh";
  return is_activation ? absl::AsciiStrToLower(forward) : "";
}

bool IsActivationGradient(const PlanStep& step) {
  return absl::EndsWith(step.op, "Grad") && !FindActivation(step).empty();
}

}  // namespace shoal
