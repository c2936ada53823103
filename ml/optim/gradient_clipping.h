#ifndef SHOAL_ML_OPTIM_GRADIENT_CLIPPING_H_
#define SHOAL_ML_OPTIM_GRADIENT_CLIPPING_H_

#include "absl/types/span.h"

namespace shoal {

// Clipping by norm, split so that the gradient never has to be in one place: each range (a slice,
// or a whole variable for clipping by the variable's own norm) gives its sum of squares, the sums
// are added in the order of the ranges, and the scale goes into UpdateStep::gradient_scale.
// Clipping by value is UpdateStep::gradient_limit.

// In double, with one fixed order of additions: the same bits on every machine.
double SumOfSquares(absl::Span<const float> values);

// clip_norm / norm if the norm is larger than clip_norm (> 0), else 1. NaN for a norm that is not
// finite.
float ClipScale(double sum_of_squares, double clip_norm);

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_GRADIENT_CLIPPING_H_
