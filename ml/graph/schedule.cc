// Decides the order of execution. A step comes after the steps that it depends on. On a device the
// clones come one after the other, and the steps of a clone in the order of creation (gradients of
// late layers are created first). Steps that are fetched or belong to no clone, such as the sum of
// the clones' gradients, come as early as possible.
#include <algorithm>
#include <queue>
#include <tuple>

#include "ml/graph/plan.h"

namespace shoal {
namespace {

using Priority = std::tuple<int, int, int>;  // clone, node, step: the smallest first

class ListSchedule {
 public:
  ListSchedule(const Plan& plan, int num_devices);
  std::vector<std::vector<int>> Run();

 private:
  using Ready = std::priority_queue<Priority, std::vector<Priority>, std::greater<>>;

  void Enqueue(int step) {
    const PlanStep& s = plan_.steps[step];
    ready_[s.device].push({gives_fetch_[step] ? -2 : s.clone_index, s.node_id, step});
  }
  // Returns the device with the least work done among those that can continue; -1 when all is done.
  int NextDevice() const;

  const Plan& plan_;
  std::vector<int> missing_;               // indexed by step: inputs not computed yet
  std::vector<bool> gives_fetch_;          // by step
  std::vector<std::vector<int>> readers_;  // by step
  std::vector<Ready> ready_;               // by device
  std::vector<std::vector<int>> order_;    // by device
};

ListSchedule::ListSchedule(const Plan& plan, int num_devices)
    : plan_(plan),
      missing_(plan.steps.size(), 0),
      gives_fetch_(plan.steps.size(), false),
      readers_(plan.steps.size()),
      ready_(num_devices),
      order_(num_devices) {
  for (int fetch : plan.fetches) {
    const PlanValue& value = plan.values[fetch];
    if (value.source == ValueSource::kStep) gives_fetch_[value.producer] = true;
  }
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.steps[s].is_removed) continue;
    for (int value : plan.steps[s].inputs) {
      if (plan.values[value].source != ValueSource::kStep) continue;
      readers_[plan.values[value].producer].push_back(static_cast<int>(s));
      ++missing_[s];
    }
  }
}

int ListSchedule::NextDevice() const {
  int next = -1;
  for (size_t d = 0; d < ready_.size(); ++d) {
    if (ready_[d].empty()) continue;
    if (next < 0 || order_[d].size() < order_[next].size()) next = static_cast<int>(d);
  }
  return next;
}

std::vector<std::vector<int>> ListSchedule::Run() {
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    if (!plan_.steps[s].is_removed && missing_[s] == 0) Enqueue(static_cast<int>(s));
  }
  for (int device = NextDevice(); device >= 0; device = NextDevice()) {
    const int step = std::get<2>(ready_[device].top());
    ready_[device].pop();
    order_[device].push_back(step);
    for (int reader : readers_[step]) {
      if (--missing_[reader] == 0) Enqueue(reader);
    }
  }
  return order_;
}

}  // namespace

std::vector<std::vector<int>> Schedule(const Plan& plan, int num_devices) {
  return ListSchedule(plan, num_devices).Run();
}

std::vector<int> DependenceOrder(const Plan& plan) {
  Plan flat = plan;
  for (PlanStep& step : flat.steps) step.device = 0;
  return ListSchedule(flat, 1).Run()[0];
}

}  // namespace shoal
