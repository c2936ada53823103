#include "ml/graph/plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/device/slice_ranges.h"
#include "ml/graph/op_definition.h"

namespace shoal {
namespace {

bool IsShapeOnly(const OpDefinition& op, size_t input) {
  return (op.shape_only_inputs >> std::min<size_t>(input, 31)) & 1;
}

class PlanMaker {
 public:
  PlanMaker(const CompileRequest& request, const std::vector<int>& placement)
      : request_(request),
        placement_(placement),
        values_of_(request.graph->nodes().size()),
        num_examples_(std::accumulate(request.clone_examples.begin(), request.clone_examples.end(),
                                      int64_t{0})) {}

  absl::StatusOr<Plan> Make();

 private:
  std::vector<Output> InputsOf(const Node& node) const;
  bool IsLeftOut(const Node& sum, const Node& part) const;
  std::vector<bool> Reached() const;
  absl::Status Add(const Node& node);
  absl::Status AddPlaceholder(const Node& node);
  absl::Status AddStep(const Node& node);
  bool PassesThrough(const Node& node, const TensorSpec& input, const TensorSpec& output,
                     size_t num_inputs) const;
  void Lower(const Node& node, const std::vector<TensorSpec>& inputs, PlanStep* step) const;
  void LowerSliceGradient(const Node& node, const std::vector<TensorSpec>& inputs,
                          PlanStep* step) const;
  int ValueOf(const Output& output) const { return values_of_[output.node->id][output.index]; }

  const CompileRequest& request_;
  const std::vector<int>& placement_;
  Plan plan_;
  std::vector<std::vector<int>> values_of_;  // by node id, output
  const int64_t num_examples_;
};

// Returns whether a sum over clones leaves `part` out because its clone has no examples.
bool PlanMaker::IsLeftOut(const Node& sum, const Node& part) const {
  return sum.op == "AddN" && sum.clone_index < 0 && part.clone_index >= 0 &&
         part.clone_index < static_cast<int>(request_.clone_examples.size()) &&
         request_.clone_examples[part.clone_index] == 0;
}

std::vector<Output> PlanMaker::InputsOf(const Node& node) const {
  std::vector<Output> inputs;
  for (const Output& input : node.inputs) {
    if (!IsLeftOut(node, *input.node)) inputs.push_back(input);
  }
  return inputs;
}

std::vector<bool> PlanMaker::Reached() const {
  std::vector<bool> reached(request_.graph->nodes().size(), false);
  for (const Output& fetch : request_.fetches) reached[fetch.node->id] = true;
  for (int id = static_cast<int>(reached.size()) - 1; id >= 0; --id) {
    if (!reached[id]) continue;
    for (const Output& input : InputsOf(*request_.graph->nodes()[id])) {
      reached[input.node->id] = true;
    }
  }
  return reached;
}

absl::Status PlanMaker::AddPlaceholder(const Node& node) {
  for (size_t i = 0; i < request_.feeds.size(); ++i) {
    const CompileRequest::Feed& feed = request_.feeds[i];
    if (feed.placeholder.node != &node) continue;
    const Shape& declared = node.outputs[0].shape;
    bool fits = feed.shape.IsKnown() && feed.shape.rank() == declared.rank();
    for (int d = 0; fits && d < declared.rank(); ++d) {
      fits = declared.dim(d) < 0 || declared.dim(d) == feed.shape.dim(d);
    }
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat(node.name, " takes ", declared.ToString(),
                                                     ", is fed ", feed.shape.ToString()));
    }
    PlanValue value;
    value.spec = {node.outputs[0].dtype, feed.shape};
    value.source = ValueSource::kFeed;
    value.index = static_cast<int>(i);
    values_of_[node.id] = {static_cast<int>(plan_.values.size())};
    plan_.values.push_back(value);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(node.name, " is needed, but not fed; add it to the feeds"));
}

// Returns whether the node's output has the same bytes as its input.
bool PlanMaker::PassesThrough(const Node& node, const TensorSpec& input, const TensorSpec& output,
                              size_t num_inputs) const {
  if (node.op == "Identity" || node.op == "Statistic") return true;
  const bool can_pass = node.op == "SumTo" || node.op == "BroadcastTo" || node.op == "Reshape" ||
                        node.op == "Cast" || node.op == "Squeeze" || node.op == "Slice" ||
                        node.op == "SliceGrad" || node.op == "Pad" ||
                        (node.op == "AddN" && num_inputs == 1);
  return can_pass && input == output;
}

// Sets the attributes that depend on shapes, which are known now.
void PlanMaker::Lower(const Node& node, const std::vector<TensorSpec>& inputs,
                      PlanStep* step) const {
  if (node.op == "Scale" && inputs.size() == 3) {
    const auto from = static_cast<double>(inputs[2].shape.num_elements());
    const auto to = static_cast<double>(inputs[1].shape.num_elements());
    step->attributes.Set("factor", node.attributes.GetDouble("factor", 1) * to / from);
  }
  const int64_t clone = node.attributes.GetInt("clone_index", -1);
  if (node.op == "Scale" && clone >= 0 &&
      clone < static_cast<int64_t>(request_.clone_examples.size())) {
    step->attributes.Set("factor", static_cast<double>(request_.clone_examples[clone]) /
                                       static_cast<double>(num_examples_));
  }
  if (node.op == "Squeeze" || node.op == "Unsqueeze") step->op = "Reshape";
  if (node.op == "SliceGrad") LowerSliceGradient(node, inputs, step);
  if (node.op == "ConcatGrad") {
    step->op = "Split";
    int64_t axis = node.attributes.GetInt("axis", 0);
    if (axis < 0) axis += inputs[0].shape.rank();
    std::vector<int64_t> sizes;
    for (size_t i = 1; i < inputs.size(); ++i) {
      sizes.push_back(inputs[i].shape.dim(static_cast<int>(axis)));
    }
    step->attributes.Set("split", std::move(sizes));
  }
}

// Replaces SliceGrad by a Pad that adds zeros around the slice.
void PlanMaker::LowerSliceGradient(const Node& node, const std::vector<TensorSpec>& inputs,
                                   PlanStep* step) const {
  const Shape& whole = inputs[1].shape;
  const auto ranges = SliceRanges(node.attributes, whole);
  if (!ranges.ok()) return;  // the shape function of the Slice found nothing wrong
  std::vector<int64_t> pads;
  for (const AxisRange& range : *ranges) pads.push_back(range.begin);
  for (int d = 0; d < whole.rank(); ++d) pads.push_back(whole.dim(d) - (*ranges)[d].end);
  step->op = "Pad";
  step->attributes = {{"pads", std::move(pads)}};
}

absl::Status PlanMaker::AddStep(const Node& node) {
  const OpDefinition& op = *FindOp(node.op);
  const std::vector<Output> inputs = InputsOf(node);
  std::vector<TensorSpec> specs;
  PlanStep step;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int value = ValueOf(inputs[i]);
    specs.push_back(plan_.values[value].spec);
    if (!IsShapeOnly(op, i)) step.inputs.push_back(value);
  }
  std::vector<TensorSpec> outputs;
  const absl::Status shape = op.shape({node.attributes, specs}, &outputs);
  if (!shape.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(node.name, " (", node.op, "): ", shape.message()));
  }
  if (!specs.empty() && PassesThrough(node, specs[0], outputs[0], inputs.size())) {
    values_of_[node.id] = {step.inputs[0]};
    return absl::OkStatus();
  }
  step.name = node.name;
  step.op = node.op;
  step.attributes = node.attributes;
  step.device = placement_[node.id];
  step.clone_index = node.clone_index;
  step.node_id = node.id;
  step.gradient_of = node.gradient_of == nullptr ? -1 : node.gradient_of->id;
  step.covered = {node.id};
  Lower(node, specs, &step);
  const int index = static_cast<int>(plan_.steps.size());
  for (const TensorSpec& spec : outputs) {
    const int position = static_cast<int>(step.outputs.size());
    step.outputs.push_back(plan_.AddValue(spec, index, position));
  }
  values_of_[node.id] = step.outputs;
  plan_.steps.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status PlanMaker::Add(const Node& node) {
  if (node.op == "Placeholder") return AddPlaceholder(node);
  if (node.op != "Variable") return AddStep(node);
  PlanValue value;
  value.spec = node.outputs[0];
  value.source = ValueSource::kVariable;
  value.index = node.variable_index;
  values_of_[node.id] = {static_cast<int>(plan_.values.size())};
  plan_.values.push_back(value);
  return absl::OkStatus();
}

absl::StatusOr<Plan> PlanMaker::Make() {
  for (const Output& fetch : request_.fetches) {
    if (!fetch.valid()) return absl::InvalidArgumentError("a fetch is not an output of the graph");
  }
  const std::vector<bool> reached = Reached();
  for (const auto& node : request_.graph->nodes()) {
    if (reached[node->id]) RETURN_IF_ERROR(Add(*node));
  }
  for (const Output& fetch : request_.fetches) plan_.fetches.push_back(ValueOf(fetch));
  plan_.RemoveUnused();
  return std::move(plan_);
}

}  // namespace

int Plan::AddValue(const TensorSpec& spec, int producer, int index) {
  PlanValue value;
  value.spec = spec;
  value.index = index;
  value.producer = producer;
  values.push_back(value);
  return static_cast<int>(values.size()) - 1;
}

std::vector<std::vector<int>> Plan::Consumers() const {
  std::vector<std::vector<int>> consumers(values.size());
  for (size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].is_removed) continue;
    for (int value : steps[s].inputs) {
      std::vector<int>& of_value = consumers[value];
      const bool known = !of_value.empty() && of_value.back() == static_cast<int>(s);
      if (!known) of_value.push_back(static_cast<int>(s));
    }
  }
  for (int value : fetches) consumers[value].push_back(-1);
  return consumers;
}

void Plan::ReplaceUses(int old_value, int new_value) {
  for (PlanStep& step : steps) {
    std::replace(step.inputs.begin(), step.inputs.end(), old_value, new_value);
  }
  std::replace(fetches.begin(), fetches.end(), old_value, new_value);
}

int Plan::FindRoot(int value) const {
  while (values[value].source == ValueSource::kStep) {
    const PlanStep& step = steps[values[value].producer];
    if (!IsAlias(step)) break;
    value = step.inputs[0];
  }
  return value;
}

void Plan::RemoveUnused() {
  std::vector<bool> needed(steps.size(), false);
  std::vector<int> pending(fetches);
  while (!pending.empty()) {
    const PlanValue& value = values[pending.back()];
    pending.pop_back();
    if (value.source != ValueSource::kStep || needed[value.producer]) continue;
    needed[value.producer] = true;
    const PlanStep& step = steps[value.producer];
    pending.insert(pending.end(), step.inputs.begin(), step.inputs.end());
  }
  for (size_t s = 0; s < steps.size(); ++s) steps[s].is_removed |= !needed[s];
}

bool IsAlias(const PlanStep& step) { return step.op == "Reshape"; }

bool DrawsRandomNumbers(const PlanStep& step) { return step.op == "Dropout"; }

absl::StatusOr<Plan> MakePlan(const CompileRequest& request, const std::vector<int>& placement) {
  return PlanMaker(request, placement).Make();
}

}  // namespace shoal
