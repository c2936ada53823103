#ifndef SHOAL_RUNTIME_PLAN_PLACEMENT_H_
#define SHOAL_RUNTIME_PLAN_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "runtime/plan/slice_table.h"

namespace shoal {

enum class PlacementStrategy {
  kGreedyByBytes,  // the largest slice first (ties by index) to the ps with the fewest bytes (ties
                   // by index)
  kRoundRobin,     // variable v whole to ps v mod num_ps_tasks, as TensorFlow
};

// The owner of each slice: a pure function, computed once by the chief and kept in the manifest.
// num_ps_tasks >= 1.
std::vector<uint32_t> PlaceSlices(const SliceTable& table, uint32_t num_ps_tasks,
                                  PlacementStrategy strategy);

// The slices of one ps, in index order.
std::vector<uint32_t> SlicesOwnedBy(uint32_t ps, const std::vector<uint32_t>& owner);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PLAN_PLACEMENT_H_
