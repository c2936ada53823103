// The compiler's representation of a graph. It has only the steps that the fetches need, and all
// shapes are known. The passes below fuse its steps, choose layouts, insert copies and order the
// steps. Private to ml/graph.
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
  // kStep: the number of the producer's output; kFeed, kVariable: index of the binding.
  int index = 0;
  int producer = -1;  // kStep: the step that computes it
};

struct PlanStep {
  std::string name;
  std::string op;
  Attributes attributes;
  std::vector<int> inputs;   // values
  std::vector<int> outputs;  // values
  int device = 0;
  int clone_index = -1;
  int node_id = 0;       // the node's id, in the order of creation
  int gradient_of = -1;  // id of the forward node whose gradient it computes; -1: none
  // Ids of the forward nodes whose outputs it computes, several after fusion.
  std::vector<int> covered;
  int group_sum = -1;  // kGroupPart: the kGroupSum step that it is a part of
  bool is_removed = false;
};

// A list of steps and values, which refer to each other by index. Both lists only grow: a removed
// step stays in the list and is marked is_removed.
struct Plan {
  std::vector<PlanStep> steps;
  std::vector<PlanValue> values;
  std::vector<int> fetches;  // values, in the order of the request
  // The devices that form a group, by rank. The group computes sums over their clones, and values
  // that all of them read are uploaded to one of them. Empty: there is no group.
  std::vector<int> group;
  std::shared_ptr<DeviceGroup> device_group;  // the opened group of these devices

  int AddValue(const TensorSpec& spec, int producer, int index);
  // Returns for each value the steps that read it; -1 stands for a fetch.
  std::vector<std::vector<int>> Consumers() const;
  void ReplaceUses(int old_value, int new_value);
  // Returns the value whose memory this value uses: an alias (see IsAlias) uses its input's.
  int FindRoot(int value) const;
  // Marks the steps that no fetch needs as removed.
  void RemoveUnused();
};

// Returns whether the step is a reshape: its output is its input with another shape, so it has no
// kernel and no memory.
bool IsAlias(const PlanStep& step);
// Returns whether the step uses the run's RandomKey.
bool DrawsRandomNumbers(const PlanStep& step);

// Makes the plan of the nodes that the fetches need, and infers all shapes (plan.cc). `placement`
// has the device of each node id.
absl::StatusOr<Plan> MakePlan(const CompileRequest& request, const std::vector<int>& placement);

// The kernels of each device, by its index in PlacerOptions::devices.
using DeviceBackends = std::vector<const KernelBackend*>;

// Rounds the operands of products (matrix products, convolutions, their gradients) to bfloat16; the
// results stay float32. Call it before the fusion passes, which do not fuse gradients if a rounding
// is between them. Unimplemented names a product that has no kernel for bfloat16 on its device
// (product_rounding.cc).
absl::Status RoundProducts(const DeviceBackends& backends, Plan* plan);

// Replace patterns of steps on one device, forward and backward together, by fused ops
// (fusion_*.cc).
void FuseDense(Plan* plan, int device);
void FusePooling(Plan* plan, int device);
void FuseConvolutionPooling(Plan* plan, int device);
void FuseConvolutionActivation(Plan* plan, int device);
void FuseNormalization(Plan* plan, int device);
void FuseNormalizationGradient(Plan* plan, int device);
void FuseEmbeddingGradients(Plan* plan, int device);

// Chooses blocked layouts between the first convolution and the last pool, on devices whose entry
// in `supports_layout` is not empty (layout_pass.cc).
void AssignLayouts(const std::vector<LayoutSupport>& supports_layout, Plan* plan);

// Returns whether the step's outputs are in the host's memory: the device is a host device, or the
// step is kCopyToHost.
bool IsInHostMemory(const PlanStep& step, const DeviceBackends& backends);
// Inserts one copy step for each value and each memory in which the value is read but not computed
// (border_copies.cc). These ops have no kernel; the executor makes the copies itself.
inline constexpr char kCopyToHost[] = "CopyToHost";      // a step of the device that has the value
inline constexpr char kCopyFromHost[] = "CopyFromHost";  // a step of the device that reads it
// A copy between two devices, without the host: a step of the device that reads the value.
inline constexpr char kCopyFromPeer[] = "CopyFromPeer";
void InsertBorderCopies(const DeviceBackends& backends, Plan* plan);

// The passes of group sums (group_sums.cc), in this order. FindGroup opens the group of the devices
// that have their own memory and at least one step, and turns the sums that the group can compute
// into kGroupSum, a step that reads values in several memories. If the group cannot be opened, it
// logs a line and there is no group. After InsertBorderCopies, SplitGroupSums replaces each
// kGroupSum by one kGroupPart for each device; the root's part outputs the sum. After Schedule,
// OrderGroupParts gives all devices of the group their parts in the same order.
inline constexpr char kGroupSum[] = "GroupSum";
inline constexpr char kGroupPart[] = "GroupPart";
void FindGroup(const DeviceBackends& backends, absl::Span<const DeviceSpec> devices, Plan* plan);
void SplitGroupSums(Plan* plan);
void OrderGroupParts(const Plan& plan, std::vector<std::vector<int>>* order);

// Returns all steps, producers before their readers (schedule.cc).
std::vector<int> DependenceOrder(const Plan& plan);
// Returns for each device its steps in the order of execution.
std::vector<std::vector<int>> Schedule(const Plan& plan, int num_devices);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_PLAN_H_
