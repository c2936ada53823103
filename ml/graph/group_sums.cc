// Replaces sums over the clones of a group of devices by sums that the group computes: each device
// contributes its part, and one of them receives the sum.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "ml/device/device_group.h"
#include "ml/graph/plan.h"

namespace shoal {
namespace {

bool HasOwnMemory(const DeviceBackends& backends, int device) {
  return static_cast<bool>(backends[device]->open_device);
}

class GroupSearch {
 public:
  GroupSearch(const DeviceBackends& backends, absl::Span<const DeviceSpec> devices, Plan* plan)
      : backends_(backends), devices_(devices), plan_(*plan), consumers_(plan->Consumers()) {}
  void Run();

 private:
  // The device that computes a value, -1 if it is bound or a constant.
  int DeviceOf(int value) const;
  std::vector<int> UsedDevices() const;
  bool IsSumOf(const std::vector<int>& group, const PlanStep& step) const;
  absl::StatusOr<std::shared_ptr<DeviceGroup>> Open(const std::vector<int>& group) const;

  const DeviceBackends& backends_;
  const absl::Span<const DeviceSpec> devices_;
  Plan& plan_;
  const std::vector<std::vector<int>> consumers_;
};

int GroupSearch::DeviceOf(int value) const {
  const PlanValue& root = plan_.values[plan_.FindRoot(value)];
  if (root.source != ValueSource::kStep) return -1;
  const PlanStep& producer = plan_.steps[root.producer];
  return producer.op == "Constant" ? -1 : producer.device;
}

// Returns the devices with their own memory that have steps.
std::vector<int> GroupSearch::UsedDevices() const {
  std::vector<int> devices;
  for (size_t d = 0; d < backends_.size(); ++d) {
    const int device = static_cast<int>(d);
    const bool is_used =
        std::any_of(plan_.steps.begin(), plan_.steps.end(), [&](const PlanStep& step) {
          return !step.is_removed && step.device == device && step.op != "Constant" &&
                 !IsAlias(step);
        });
    if (is_used && HasOwnMemory(backends_, device)) devices.push_back(device);
  }
  return devices;
}

// Returns whether the group can compute the sum: it has one term from each device, in their order,
// the terms are whole tensors, and only the caller reads the sum, and only once.
bool GroupSearch::IsSumOf(const std::vector<int>& group, const PlanStep& step) const {
  if (step.op != "AddN" || step.inputs.size() != group.size()) return false;
  if (consumers_[step.outputs[0]] != std::vector<int>{-1}) return false;
  const TensorSpec& spec = plan_.values[step.outputs[0]].spec;
  if (spec.dtype != DataType::kFloat32 || spec.layout != Layout::kPlain) return false;
  if (std::count(group.begin(), group.end(), step.device) == 0) return false;
  for (size_t i = 0; i < group.size(); ++i) {
    if (DeviceOf(step.inputs[i]) != group[i]) return false;
  }
  return true;
}

absl::StatusOr<std::shared_ptr<DeviceGroup>> GroupSearch::Open(
    const std::vector<int>& group) const {
  std::vector<int> indices;
  for (int device : group) {
    indices.push_back(static_cast<int>(devices_[device].device_index.value_or(0)));
  }
  return backends_[group[0]]->open_group(indices);
}

// If devices read values of other devices (a batch norm over all clones), they might wait for each
// other in another order than the group does. Such devices exchange plain copies instead.
void GroupSearch::Run() {
  const std::vector<int> group = UsedDevices();
  if (group.size() < 2) return;
  for (int device : group) {
    if (backends_[device] != backends_[group[0]] || !backends_[device]->open_group) return;
  }
  std::vector<int> sums;
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.is_removed) continue;
    if (IsSumOf(group, step)) {
      sums.push_back(static_cast<int>(s));
      continue;
    }
    if (!HasOwnMemory(backends_, step.device)) continue;
    for (int value : step.inputs) {
      const int from = DeviceOf(value);
      if (from >= 0 && from != step.device) return;
    }
  }
  absl::StatusOr<std::shared_ptr<DeviceGroup>> opened = Open(group);
  if (!opened.ok()) {
    LOG(WARNING) << "the devices exchange copies instead of forming a group: "
                 << opened.status().message();
    return;
  }
  plan_.device_group = *std::move(opened);
  for (int sum : sums) plan_.steps[sum].op = kGroupSum;
  plan_.group = group;
}

}  // namespace

void FindGroup(const DeviceBackends& backends, absl::Span<const DeviceSpec> devices, Plan* plan) {
  GroupSearch(backends, devices, plan).Run();
}

void SplitGroupSums(Plan* plan) {
  const size_t num_steps = plan->steps.size();
  for (size_t s = 0; s < num_steps; ++s) {
    if (plan->steps[s].op != kGroupSum || plan->steps[s].is_removed) continue;
    const PlanStep sum = plan->steps[s];
    plan->steps[s].is_removed = true;
    for (size_t rank = 0; rank < plan->group.size(); ++rank) {
      const int index = static_cast<int>(plan->steps.size());
      PlanStep part = sum;
      part.op = kGroupPart;
      part.device = plan->group[rank];
      part.inputs = {sum.inputs[rank]};
      if (part.device == sum.device) {
        plan->values[sum.outputs[0]].producer = index;
      } else {
        const TensorSpec spec = plan->values[sum.outputs[0]].spec;
        part.outputs = {plan->AddValue(spec, index, 0)};
      }
      const auto root = std::find(plan->group.begin(), plan->group.end(), sum.device);
      part.attributes = {{"root", static_cast<int64_t>(root - plan->group.begin())}};
      part.group_sum = static_cast<int>(s);
      plan->steps.push_back(std::move(part));
    }
  }
}

namespace {

// Moves the parts in a device's order into the order of `sums`, each after the step that computes
// its term.
std::vector<int> SortInOrder(const std::vector<int>& sums, const Plan& plan,
                             const std::vector<int>& order) {
  std::vector<int> parts(sums.size());
  std::vector<int> result;
  const auto place = [&](int step) {
    return std::find(result.begin(), result.end(), step) - result.begin();
  };
  for (int step : order) {
    const auto sum = std::find(sums.begin(), sums.end(), plan.steps[step].group_sum);
    if (sum == sums.end()) {
      result.push_back(step);
    } else {
      parts[static_cast<size_t>(sum - sums.begin())] = step;
    }
  }
  std::ptrdiff_t after = 0;
  for (int part : parts) {
    const int value = plan.FindRoot(plan.steps[part].inputs[0]);
    after = std::max(after, place(plan.values[value].producer) + 1);
    result.insert(result.begin() + after, part);
    ++after;
  }
  return result;
}

}  // namespace

void OrderGroupParts(const Plan& plan, std::vector<std::vector<int>>* order) {
  if (plan.group.empty()) return;
  std::vector<int> sums;
  for (int step : (*order)[plan.group[0]]) {
    if (plan.steps[step].group_sum >= 0) sums.push_back(plan.steps[step].group_sum);
  }
  for (int device : plan.group) (*order)[device] = SortInOrder(sums, plan, (*order)[device]);
}

}  // namespace shoal
