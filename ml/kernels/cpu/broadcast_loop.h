// Nested loops over the dimensions of a result whose operands may be broadcast (numpy's rule) or
// summed away.
#ifndef SHOAL_ML_KERNELS_CPU_BROADCAST_LOOP_H_
#define SHOAL_ML_KERNELS_CPU_BROADCAST_LOOP_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/tensor/shape.h"

namespace shoal::cpu {

// The dimensions of `full`, merged where every operand is contiguous or constant across both,
// outermost first. A stride is in elements and 0 where the operand does not have the dimension.
struct BroadcastLoop {
  static constexpr int kMaxOperands = 3;
  struct Dim {
    int64_t size;
    std::array<int64_t, kMaxOperands> stride;
  };

  std::array<Dim, Shape::kMaxRank> dims;
  int rank = 0;  // at least 1; the innermost is dims[rank - 1]

  const Dim& inner() const { return dims[rank - 1]; }
  // Number of times the innermost dimension is run.
  int64_t outer_count() const;
  // Offset of the operand at the outer iteration `index`, in row-major order.
  int64_t OuterOffset(int64_t index, int operand) const;
};

// InvalidArgument where an operand's shape cannot be broadcast to `full`. At most kMaxOperands.
absl::StatusOr<BroadcastLoop> MakeBroadcastLoop(const Shape& full,
                                                absl::Span<const Shape> operands);

// numpy's rule; InvalidArgument where the shapes do not fit.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_BROADCAST_LOOP_H_
