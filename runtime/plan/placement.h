#ifndef SHOAL_RUNTIME_PLAN_PLACEMENT_H_
#define SHOAL_RUNTIME_PLAN_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "runtime/plan/slice_table.h"

namespace shoal {

enum class PlacementStrategy {
  // Gives the largest slice first (ties by index) to the ps with the fewest bytes (ties by index).
  kGreedyByBytes,
  // Gives variables whole to one ps after the other, like TensorFlow. Each bucket of a table counts
  // as a variable.
  kRoundRobin,
};

// Returns the owner of each slice. A pure function; the chief computes it once and stores the
// result in the manifest. num_ps_tasks >= 1.
std::vector<uint32_t> PlaceSlices(const SliceTable& table, uint32_t num_ps_tasks,
                                  PlacementStrategy strategy);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PLAN_PLACEMENT_H_
