#ifndef SHOAL_ML_OPTIM_GRADIENT_CLIPPING_H_
#define SHOAL_ML_OPTIM_GRADIENT_CLIPPING_H_

#include "absl/types/span.h"

namespace shoal {

// Functions to clip a gradient by its norm when its parts are in different places. SumOfSquares is
// computed for each range (a slice, or a whole variable to clip by the norm of each variable). The
// caller adds the sums in the order of the ranges, passes the total to ClipScale, and puts the
// result into UpdateStep::gradient_scale. To clip by value, use UpdateStep::gradient_limit.

// Returns the sum of squares, computed in double with a fixed order of additions, so that it has
// the same bits on every machine.
double SumOfSquares(absl::Span<const float> values);

// Returns clip_norm / norm if the norm is larger than clip_norm, else 1; NaN if the norm is not
// finite. clip_norm must be > 0.
float ClipScale(double sum_of_squares, double clip_norm);

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_GRADIENT_CLIPPING_H_
