#include "ml/graph/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ml/tensor/buffer.h"

namespace shoal {
namespace {

bool Overlap(const MemoryRequest& a, const MemoryRequest& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

MemoryPlan PlanMemory(const std::vector<MemoryRequest>& requests) {
  MemoryPlan plan;
  plan.offsets.resize(requests.size());
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].bytes > requests[b].bytes; });
  std::vector<size_t> placed;
  for (size_t request : order) {
    std::vector<std::pair<size_t, size_t>> taken;  // [begin, end) of those alive at the same time
    for (size_t other : placed) {
      if (!Overlap(requests[request], requests[other])) continue;
      taken.emplace_back(plan.offsets[other],
                         plan.offsets[other] + AlignedBytes(requests[other].bytes));
    }
    std::sort(taken.begin(), taken.end());
    size_t offset = 0;
    const size_t bytes = AlignedBytes(requests[request].bytes);
    for (const auto& [begin, end] : taken) {
      if (offset + bytes <= begin) break;
      offset = std::max(offset, end);
    }
    plan.offsets[request] = offset;
    plan.total_bytes = std::max(plan.total_bytes, offset + bytes);
    placed.push_back(request);
  }
  return plan;
}

}  // namespace shoal
