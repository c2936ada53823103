// The compiler's own form of a graph: shapes known, only what the fetches need, ready to be fused,
// laid out, ordered and given memory. Private to ml/graph.
#ifndef SHOAL_ML_GRAPH_PLAN_H_
#define SHOAL_ML_GRAPH_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/graph/compiler.h"
#include "ml/graph/graph.h"

namespace shoal {

enum class ValueSource { kStep, kFeed, kVariable };

struct PlanValue {
  TensorSpec spec;
  ValueSource source = ValueSource::kStep;
  int index = 0;      // kStep: of the step's outputs; kFeed, kVariable: of the binding
  int producer = -1;  // kStep: the step
};

struct PlanStep {
  std::string name;
  std::string op;
  Attributes attributes;
  std::vector<int> inputs;   // values
  std::vector<int> outputs;  // values
  int device = 0;
  int clone_index = -1;
  int node_id = 0;           // the order of creation
  int gradient_of = -1;      // id of the forward node it differentiates
  std::vector<int> covered;  // ids of the forward nodes it computes
  bool is_removed = false;
};

// Steps refer to values and values to steps by index; both only grow. A removed step stays, marked.
struct Plan {
  std::vector<PlanStep> steps;
  std::vector<PlanValue> values;
  std::vector<int> fetches;  // values, in the order of the request

  int AddValue(const TensorSpec& spec, int producer, int index);
  // Steps that read each value; -1 stands for a fetch.
  std::vector<std::vector<int>> Consumers() const;
  void ReplaceUses(int old_value, int new_value);
  // Marks steps that no fetch needs.
  void RemoveUnused();
};

// Reshape: the same bytes seen under another shape, no kernel.
bool IsAlias(const PlanStep& step);

// The ancestors of the fetches with known shapes (plan.cc).
absl::StatusOr<Plan> MakePlan(const CompileRequest& request, const std::vector<int>& placement);

// Fused ops in place of clusters of nodes, forward and backward together (fusion_*.cc).
void FuseDense(Plan* plan);
void FusePooling(Plan* plan);
void FuseConvolutionPooling(Plan* plan);
void FuseConvolutionActivation(Plan* plan);
void FuseNormalization(Plan* plan);

// Blocked layouts between the first convolution and the last pool (layout_pass.cc).
void AssignLayouts(const LayoutSupport& supports_layout, Plan* plan);

// All steps, producers before readers (schedule.cc).
std::vector<int> DependenceOrder(const Plan& plan);
// For each device its steps in the order of running.
std::vector<std::vector<int>> Schedule(const Plan& plan, int num_devices);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_PLAN_H_
