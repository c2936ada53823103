#include "ml/optim/gradient_clipping.h"

#include <cmath>
#include <cstddef>
#include <limits>

// Compiled with -ffp-contract=off: see BUILD.

namespace shoal {

double SumOfSquares(absl::Span<const float> values) {
  constexpr size_t kLanes = 16;
  double lanes[kLanes] = {};
  const float* x = values.data();
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double v = x[i + lane];
      lanes[lane] += v * v;
    }
  }
  for (size_t i = whole; i < values.size(); ++i) {
    const double v = x[i];
    lanes[i - whole] += v * v;
  }
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

float ClipScale(double sum_of_squares, double clip_norm) {
  const double norm = std::sqrt(sum_of_squares);
  if (!std::isfinite(norm)) return std::numeric_limits<float>::quiet_NaN();
  return norm > clip_norm ? static_cast<float>(clip_norm / norm) : 1.0f;
}

}  // namespace shoal
