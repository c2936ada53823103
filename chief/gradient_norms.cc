#include "chief/gradient_norms.h"

#include <algorithm>
#include <cmath>

namespace shoal {

void GradientNorms::Add(uint64_t step, uint32_t slice, double squared_norm) {
  steps_[step].try_emplace(slice, squared_norm);
}

std::optional<double> GradientNorms::Scale(uint64_t step) const {
  auto it = steps_.find(step);
  if (it == steps_.end() || it->second.size() < num_slices_) return std::nullopt;
  double sum = 0;
  for (const auto& [slice, squared_norm] : it->second) sum += squared_norm;
  return clip_ / std::max(std::sqrt(sum), clip_);
}

}  // namespace shoal
