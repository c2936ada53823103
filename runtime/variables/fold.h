#ifndef SHOAL_RUNTIME_VARIABLES_FOLD_H_
#define SHOAL_RUNTIME_VARIABLES_FOLD_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "runtime/variables/contribution.h"

namespace shoal {

// Folding adds one contribution (a worker's gradient of a slice) to the sum of a step: one
// multiplication and one addition per element, so that dividing a variable into slices does not
// change a bit of the result. Payloads are bytes of any alignment.

// The payload of a push.
struct Payload {
  ContributionKind kind = ContributionKind::kDense;
  const void* data = nullptr;
  uint64_t bytes = 0;
};

// The dimensions of a slice that a payload has to fit.
struct SliceShape {
  uint64_t num_elements = 0;
  // The elements of a sparse row. Where sparse pushes are accepted, num_elements is a multiple of
  // it.
  uint64_t row_elements = 1;
};

// Returns whether the payload fits the slice. A dense one has all of its elements; a sparse one has
// a count, rising row indices inside the slice, and rows.
bool PayloadFits(const Payload& payload, const SliceShape& shape);

// Returns whether every number of a payload that fits is finite.
bool PayloadIsFinite(const Payload& payload, const SliceShape& shape);

// Computes sum = weight * payload if `first`, else sum += weight * payload. `sum` has num_elements
// floats.
void FoldPayload(const Payload& payload, const SliceShape& shape, float weight, bool first,
                 float* sum);

// Multiplies every value by `factor`.
void ScaleInPlace(float factor, absl::Span<float> values);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_FOLD_H_
