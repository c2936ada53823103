// Inserts copies between memories, for values that are computed in one and read in another.
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "ml/graph/plan.h"

namespace shoal {
namespace {

bool HasOwnMemory(const DeviceBackends& backends, int device) {
  return static_cast<bool>(backends[device]->open_device);
}

class BorderCopies {
 public:
  BorderCopies(const DeviceBackends& backends, Plan* plan) : backends_(backends), plan_(*plan) {}
  void Insert();

 private:
  static constexpr int kHost = -1;
  // A memory is named by its device; those of the host share one.
  int MemoryOf(const PlanStep& step) const {
    return IsInHostMemory(step, backends_) ? kHost : step.device;
  }
  int ValueIn(int memory, int value, int reader);
  int AddCopy(const char* op, int value, int device);
  int AddConstant(int value, int device);

  const DeviceBackends& backends_;
  Plan& plan_;
  std::map<std::pair<int, int>, int> copied_;  // (value, memory) -> the value there
};

void BorderCopies::Insert() {
  const int num_steps = static_cast<int>(plan_.steps.size());
  for (int s = 0; s < num_steps; ++s) {
    if (plan_.steps[s].is_removed || IsAlias(plan_.steps[s])) continue;
    if (plan_.steps[s].op == kGroupSum) continue;
    const int memory = MemoryOf(plan_.steps[s]);
    const size_t num_inputs = plan_.steps[s].inputs.size();
    for (size_t i = 0; i < num_inputs; ++i) {
      const int value = ValueIn(memory, plan_.steps[s].inputs[i], plan_.steps[s].device);
      plan_.steps[s].inputs[i] = value;
    }
  }
  if (!copied_.empty()) plan_.RemoveUnused();  // constants that are made elsewhere now
}

int BorderCopies::ValueIn(int memory, int value, int reader) {
  const PlanValue& root = plan_.values[plan_.FindRoot(value)];
  if (root.source != ValueSource::kStep) return value;
  const PlanStep& producer = plan_.steps[root.producer];
  const int from = MemoryOf(producer);
  if (from == memory) return value;
  const auto known = copied_.find({value, memory});
  if (known != copied_.end()) return known->second;
  int copy = -1;
  if (producer.op == "Constant") {
    copy = AddConstant(value, reader);
  } else if (memory == kHost) {
    copy = AddCopy(kCopyToHost, value, from);
  } else if (from == kHost) {
    copy = AddCopy(kCopyFromHost, value, memory);
  } else if (backends_[from] == backends_[memory]) {
    copy = AddCopy(kCopyFromPeer, value, memory);
  } else {
    copy = AddCopy(kCopyFromHost, ValueIn(kHost, value, reader), memory);
  }
  copied_[{value, memory}] = copy;
  return copy;
}

int BorderCopies::AddCopy(const char* op, int value, int device) {
  const PlanStep& producer = plan_.steps[plan_.values[plan_.FindRoot(value)].producer];
  PlanStep copy;
  copy.name = absl::StrCat(producer.name, "/", op);
  copy.op = op;
  copy.inputs = {value};
  copy.device = device;
  copy.clone_index = producer.clone_index;
  copy.node_id = producer.node_id;
  const TensorSpec spec = plan_.values[value].spec;
  copy.outputs = {plan_.AddValue(spec, static_cast<int>(plan_.steps.size()), 0)};
  plan_.steps.push_back(std::move(copy));
  return plan_.steps.back().outputs[0];
}

// A constant is not copied; each device that reads it makes its own.
int BorderCopies::AddConstant(int value, int device) {
  PlanStep constant = plan_.steps[plan_.values[plan_.FindRoot(value)].producer];
  constant.device = device;
  const TensorSpec spec = plan_.values[value].spec;
  constant.outputs = {plan_.AddValue(spec, static_cast<int>(plan_.steps.size()), 0)};
  plan_.steps.push_back(std::move(constant));
  return plan_.steps.back().outputs[0];
}

}  // namespace

bool IsInHostMemory(const PlanStep& step, const DeviceBackends& backends) {
  return step.op == kCopyToHost || !HasOwnMemory(backends, step.device);
}

void InsertBorderCopies(const DeviceBackends& backends, Plan* plan) {
  BorderCopies(backends, plan).Insert();
}

}  // namespace shoal
