#include "runtime/plan/placement.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace shoal {
namespace {

std::vector<uint32_t> PlaceGreedily(const SliceTable& table, uint32_t num_ps_tasks) {
  std::vector<uint32_t> order(table.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&table](uint32_t a, uint32_t b) {
    return table[a].num_elements > table[b].num_elements;
  });

  using Load = std::pair<uint64_t, uint32_t>;  // bytes, ps
  std::priority_queue<Load, std::vector<Load>, std::greater<Load>> lightest;
  for (uint32_t ps = 0; ps < num_ps_tasks; ++ps) lightest.push({0, ps});
  std::vector<uint32_t> owner(table.size());
  for (uint32_t slice : order) {
    auto [bytes, ps] = lightest.top();
    lightest.pop();
    owner[slice] = ps;
    lightest.push({bytes + table[slice].num_bytes(), ps});
  }
  return owner;
}

std::vector<uint32_t> PlaceRoundRobin(const SliceTable& table, uint32_t num_ps_tasks) {
  std::vector<uint32_t> owner(table.size());
  uint32_t turn = 0;
  for (uint32_t slice = 0; slice < table.size(); ++slice) {
    const bool takes_turn =
        slice > 0 && (table[slice].is_bucket || table[slice].variable != table[slice - 1].variable);
    if (takes_turn) turn = (turn + 1) % num_ps_tasks;
    owner[slice] = turn;
  }
  return owner;
}

}  // namespace

std::vector<uint32_t> PlaceSlices(const SliceTable& table, uint32_t num_ps_tasks,
                                  PlacementStrategy strategy) {
  switch (strategy) {
    case PlacementStrategy::kGreedyByBytes:
      return PlaceGreedily(table, num_ps_tasks);
    case PlacementStrategy::kRoundRobin:
      break;
  }
  return PlaceRoundRobin(table, num_ps_tasks);
}

}  // namespace shoal
