// The compiler's own form of a graph: shapes known, only what the fetches need, ready to be fused,
// laid out, ordered and given memory. Private to ml/graph.
#ifndef SHOAL_ML_GRAPH_PLAN_H_
#define SHOAL_ML_GRAPH_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/graph/compiler.h"
#include "ml/graph/graph.h"

namespace shoal {

class DeviceGroup;

enum class ValueSource { kStep, kFeed, kVariable };

struct PlanValue {
  TensorSpec spec;
  ValueSource source = ValueSource::kStep;
  int index = 0;      // kStep: index of the step's output; kFeed, kVariable: index of the binding
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
  int group_sum = -1;        // for a part of a group's sum: the step that was the sum
  bool is_removed = false;
};

// Steps refer to values and values to steps by index; both only grow. A removed step stays, marked.
struct Plan {
  std::vector<PlanStep> steps;
  std::vector<PlanValue> values;
  std::vector<int> fetches;  // values, in the order of the request
  // Devices that are a group, by rank: their sums over clones are the group's, and values that all
  // of them read go up to one of them. Empty: there is none.
  std::vector<int> group;
  std::shared_ptr<DeviceGroup> device_group;  // of these, open

  int AddValue(const TensorSpec& spec, int producer, int index);
  // Steps that read each value; -1 stands for a fetch.
  std::vector<std::vector<int>> Consumers() const;
  void ReplaceUses(int old_value, int new_value);
  // The value that owns the bytes: reshapes see those of their input.
  int RootOf(int value) const;
  // Marks steps that no fetch needs.
  void RemoveUnused();
};

// Reshape: the same bytes seen under another shape, no kernel.
bool IsAlias(const PlanStep& step);
// Reads the run's RandomKey.
bool DrawsRandomNumbers(const PlanStep& step);

// The ancestors of the fetches with known shapes (plan.cc).
absl::StatusOr<Plan> MakePlan(const CompileRequest& request, const std::vector<int>& placement);

// The kernels of each device, by its index in PlacerOptions::devices.
using DeviceBackends = std::vector<const KernelBackend*>;

// Operands of products (matrix products, convolutions, their gradients) become bfloat16; what these
// give stays float32. Before fusion, which then leaves gradients that round in between as they are.
// Unimplemented names a product on a device that has no kernel for it (product_rounding.cc).
absl::Status RoundProducts(const DeviceBackends& backends, Plan* plan);

// Fused ops in place of clusters of nodes, forward and backward together, among the steps of one
// device (fusion_*.cc).
void FuseDense(Plan* plan, int device);
void FusePooling(Plan* plan, int device);
void FuseConvolutionPooling(Plan* plan, int device);
void FuseConvolutionActivation(Plan* plan, int device);
void FuseNormalization(Plan* plan, int device);
void FuseNormalizationGradient(Plan* plan, int device);

// Blocked layouts between the first convolution and the last pool, on devices whose entry is not
// empty (layout_pass.cc).
void AssignLayouts(const std::vector<LayoutSupport>& supports_layout, Plan* plan);

// Returns whether the step's outputs are in the host's memory: not those of a device with its own
// memory, unless the step brings them from there.
bool IsInHostMemory(const PlanStep& step, const DeviceBackends& backends);
// One copy for each value and memory in which the value is read but not computed. CopyToHost and
// its kin stand for what the executor does itself (border_copies.cc).
inline constexpr char kCopyToHost[] = "CopyToHost";      // a step of the device that has the value
inline constexpr char kCopyFromHost[] = "CopyFromHost";  // a step of the device that reads it
inline constexpr char kCopyFromPeer[] = "CopyFromPeer";  // likewise
void InsertBorderCopies(const DeviceBackends& backends, Plan* plan);

// Finds and opens the group of the devices with memory of their own that have something to do, and
// the sums that are its own: from then on kGroupSum, which reads in several memories. No group, and
// a line of log, if it cannot be opened. After the copies at
// borders these are split: kGroupPart gives one device's part, the root's has the sum. Last, all
// devices of the group get their parts in the same order (group_sums.cc).
inline constexpr char kGroupSum[] = "GroupSum";
inline constexpr char kGroupPart[] = "GroupPart";
void FindGroup(const DeviceBackends& backends, absl::Span<const DeviceSpec> devices, Plan* plan);
void SplitGroupSums(Plan* plan);
void OrderGroupParts(const Plan& plan, std::vector<std::vector<int>>* order);

// All steps, producers before readers (schedule.cc).
std::vector<int> DependenceOrder(const Plan& plan);
// For each device its steps in the order of running.
std::vector<std::vector<int>> Schedule(const Plan& plan, int num_devices);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_PLAN_H_
