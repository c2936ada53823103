// Nested loops over the dimensions of a tensor whose operands are broadcast by numpy's rule. For a
// reduction, the result is such an operand.
#ifndef SHOAL_ML_KERNELS_CPU_BROADCAST_LOOP_H_
#define SHOAL_ML_KERNELS_CPU_BROADCAST_LOOP_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/tensor/shape.h"

namespace shoal::cpu {

// The dimensions of the full shape, outermost first. Adjacent dimensions are merged if every
// operand is contiguous or constant across both. A stride is in elements; it is 0 if the operand is
// broadcast along the dimension.
struct BroadcastLoop {
  static constexpr int kMaxOperands = 3;
  struct Dim {
    int64_t size;
    std::array<int64_t, kMaxOperands> stride;
  };

  std::array<Dim, Shape::kMaxRank> dims;
  int rank = 0;  // one or more; the innermost is dims[rank - 1]

  const Dim& inner() const { return dims[rank - 1]; }
  // Returns the number of iterations of all loops outside the innermost one.
  int64_t outer_count() const;
  // Returns the operand's offset in elements at outer iteration `index`, which counts in row-major
  // order.
  int64_t OuterOffset(int64_t index, int operand) const;
};

// Makes the loops over `full` for at most kMaxOperands operands. Returns InvalidArgument if the
// shape of an operand cannot be broadcast to `full`.
absl::StatusOr<BroadcastLoop> MakeBroadcastLoop(const Shape& full,
                                                absl::Span<const Shape> operands);

// Broadcasts two shapes by numpy's rule. Returns InvalidArgument if that is not possible.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_BROADCAST_LOOP_H_
