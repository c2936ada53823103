#ifndef SHOAL_RUNTIME_VARIABLES_FOLD_H_
#define SHOAL_RUNTIME_VARIABLES_FOLD_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "runtime/variables/contribution.h"

namespace shoal {

// The arithmetic of adding up contributions: one multiply and one add per element, element by
// element, so that cutting a variable into slices does not change a bit. Payloads come as bytes of
// any alignment.

// A payload as a push brought it.
struct Payload {
  ContributionKind kind = ContributionKind::kDense;
  const void* data = nullptr;
  uint64_t bytes = 0;
};

// How large a slice is, as far as a payload has to know.
struct SliceShape {
  uint64_t num_elements = 0;
  uint64_t row_elements =
      1;  // of a sparse row; num_elements is a multiple of it wherever sparse pushes are taken
};

// Does the payload's length fit the slice? Dense: its elements. Sparse: count, rising row indices
// inside the slice, rows.
bool PayloadFits(const Payload& payload, const SliceShape& shape);

// Is every number of a payload that fits finite?
bool PayloadIsFinite(const Payload& payload, const SliceShape& shape);

// sum = weight * payload if `first`, else sum += weight * payload. `sum` has num_elements floats.
void FoldPayload(const Payload& payload, const SliceShape& shape, float weight, bool first,
                 float* sum);

// values *= factor.
void ScaleInPlace(float factor, absl::Span<float> values);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_FOLD_H_
