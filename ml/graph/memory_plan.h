// Places the values of a run in one block of memory. Values that are never alive at the same time
// may share bytes. Private to ml/graph.
#ifndef SHOAL_ML_GRAPH_MEMORY_PLAN_H_
#define SHOAL_ML_GRAPH_MEMORY_PLAN_H_

#include <cstddef>
#include <vector>

namespace shoal {

struct MemoryRequest {
  size_t bytes = 0;
  int first = 0;  // the first and the last step that access it, both inclusive
  int last = 0;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // one per request, multiples of 64
  size_t total_bytes = 0;
};

// Places the largest requests first, each at the lowest offset that is free during its lifetime.
MemoryPlan PlanMemory(const std::vector<MemoryRequest>& requests);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_MEMORY_PLAN_H_
